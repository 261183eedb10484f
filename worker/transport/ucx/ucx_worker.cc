#include "worker/transport/ucx/ucx_worker.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "worker/transport/ucx/ucx_log.h"
#include "worker/transport/ucx/ucx_mode.h"

namespace stagecoach {
namespace {

constexpr unsigned kMessageId = 0;

absl::Status ApplySettings(ucp_config_t* config, const UcxTransportOptions& options) {
  for (const UcxSetting& setting : UcxSettings(options)) {
    const bool is_users = std::getenv(absl::StrCat("UCX_", setting.name).c_str()) != nullptr;
    if (is_users && !setting.is_required) continue;
    const ucs_status_t status = ucp_config_modify(config, setting.name.c_str(), setting.value.c_str());
    if (status != UCS_OK) {
      return UcxError(status, absl::StrCat("UCX does not take UCX_", setting.name, "=", setting.value));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ucp_context_h> MakeContext(const UcxTransportOptions& options) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return UcxError(status, "cannot read UCX's settings");
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> owned(config, ucp_config_release);
  STAGECOACH_RETURN_IF_ERROR(ApplySettings(config, options));
  ucp_params_t parameters = {};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  status = ucp_init(&parameters, config, &context);
  if (status != UCS_OK) {
    return UcxError(status, absl::StrCat("cannot start UCX in mode ", UcxModeText(options.mode)));
  }
  return context;
}

// UCX 1.13 tells an endpoint's transports only in prose: lines such as "lane[0]:  2:tcp/lo.0 md[1] -> ...".
std::string TransportsIn(absl::string_view prose) {
  std::set<std::string> names;
  for (const absl::string_view line : absl::StrSplit(prose, '\n')) {
    if (line.find("lane[") == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" :"), absl::SkipEmpty());
    for (const absl::string_view word : words) {
      const size_t slash = word.find('/');
      if (slash == absl::string_view::npos) continue;
      names.insert(std::string(word.substr(0, slash)));
      break;
    }
  }
  return absl::StrJoin(names, "+");
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const UcxTransportOptions& options, Events& events) {
  TakeOverUcxLog();
  std::unique_ptr<UcxWorker> worker(new UcxWorker(options, events));
  STAGECOACH_RETURN_IF_ERROR(worker->Start(options));
  return worker;
}

UcxWorker::UcxWorker(const UcxTransportOptions& options, Events& events)
    : events_(events), error_mode_(UcxErrorMode(options.mode)) {}

absl::Status UcxWorker::Start(const UcxTransportOptions& options) {
  STAGECOACH_ASSIGN_OR_RETURN(context_, MakeContext(options));
  ucp_worker_params_t parameters = {};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(context_, &parameters, &worker_);
  if (status != UCS_OK) return UcxError(status, "cannot create a UCX worker");
  status = ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return UcxError(status, "cannot get the event descriptor of a UCX worker");
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = OnActiveMessage;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return UcxError(status, "cannot receive active messages");
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  status = ucp_worker_get_address(worker_, &address, &address_bytes);
  if (status != UCS_OK) return UcxError(status, "cannot get the address of a UCX worker");
  address_.assign(reinterpret_cast<const char*>(address), address_bytes);
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

bool UcxWorker::Progress() { return ucp_worker_progress(worker_) != 0; }

bool UcxWorker::Arm() { return ucp_worker_arm(worker_) == UCS_OK; }

absl::Status UcxWorker::AddSource(int descriptor) {
  epoll_event event = {};  // UCX only hands its set of descriptors out, and never waits for it itself
  event.events = EPOLLIN;
  if (epoll_ctl(event_fd_, EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "UCX's event descriptor is not a set of descriptors");
}

absl::StatusOr<ucp_ep_h> UcxWorker::Connect(const std::string& address, WorkerRank peer) {
  endpoints_.push_back(std::unique_ptr<Endpoint>(new Endpoint{events_, peer}));
  ucp_ep_params_t parameters = {};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = error_mode_;
  parameters.err_handler.arg = endpoints_.back().get();
  parameters.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
    const auto* endpoint = static_cast<Endpoint*>(argument);
    endpoint->events.OnEndpointFailed(endpoint->peer, status);
  };
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_, &parameters, &endpoint);
  if (status != UCS_OK) return UcxError(status, "no connection");
  return endpoint;
}

ucs_status_t UcxWorker::TrySend(ucp_ep_h endpoint, std::span<const std::byte> header,
                                std::span<const std::byte> payload) {
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  // The macro below evaluates its argument twice.
  const ucs_status_ptr_t sent =
      ucp_am_send_nbx(endpoint, kMessageId, header.data(), header.size(), payload.data(), payload.size(), &parameters);
  return UCS_PTR_STATUS(sent);
}

std::string UcxWorker::RouteOf(ucp_ep_h endpoint) const {
  char* prose = nullptr;
  size_t bytes = 0;
  FILE* stream = open_memstream(&prose, &bytes);
  if (stream == nullptr) return "unknown";
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string route = TransportsIn(absl::string_view(prose, bytes));
  std::free(prose);
  return route;
}

ucs_status_t UcxWorker::OnActiveMessage(void* self, const void* header, size_t header_bytes, void* payload,
                                        size_t payload_bytes, const ucp_am_recv_param_t* parameters) {
  // Nobody here sends by UCX's rendezvous.
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_ERR_CANCELED;
  static_cast<UcxWorker*>(self)->events_.OnMessage(
      {.header = {static_cast<const std::byte*>(header), header_bytes},
       .payload = {static_cast<const std::byte*>(payload), payload_bytes}});
  return UCS_OK;
}

}  // namespace stagecoach
