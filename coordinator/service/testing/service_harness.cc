#include "coordinator/service/testing/service_harness.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/file_system.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

constexpr std::chrono::seconds kLong{30};

template <typename Condition>
bool WaitUntil(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

absl::StatusOr<PlannedJob> PlanSmallJob(const v1::JobSpec&, const std::vector<WorkerProfile>& workers) {
  return SmallPlan(static_cast<uint32_t>(workers.size()))->planned;
}

}  // namespace

void SetDeadline(grpc::ClientContext& context) { context.set_deadline(std::chrono::system_clock::now() + kLong); }

ServiceHarness::ServiceHarness(const ServiceOptions& options, const ListenAddress& listen) {
  const std::string text(16 * 24 + 1, 'x');
  STAGECOACH_CHECK(WriteFileAtomically(FileSystem::Posix(), directory.Path("text.txt"), text).ok());
  auto made = Coordinator::Create({.store = store,
                                   .clock = clock,
                                   .files = FileSystem::Posix(),
                                   .planner = PlanSmallJob,
                                   .fleet = {.suspect_grace = absl::ZeroDuration()}});
  STAGECOACH_CHECK(made.ok());
  coordinator = *std::move(made);
  auto started = GrpcServer::Start(*coordinator, listen, clock, options);
  STAGECOACH_CHECK(started.ok());
  server = *std::move(started);
  client_ = v1::CoordinatorService::NewStub(Dial());
}

ServiceHarness::~ServiceHarness() {
  workers_.clear();
  server.reset();
}

std::shared_ptr<grpc::Channel> ServiceHarness::Dial() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(server->address().ToString(), grpc::InsecureChannelCredentials(), arguments);
}

GrpcWorker& ServiceHarness::AddWorker(const std::string& name, uint64_t incarnation) {
  auto fake = std::make_unique<FakeWorker>(name, Incarnation(incarnation), &FileSystem::Posix());
  auto worker = std::make_unique<GrpcWorker>(Dial(), std::move(fake));
  return *(workers_[name] = std::move(worker));
}

v1::JobSpec ServiceHarness::Spec(const std::string& name, uint32_t num_workers, uint64_t steps) const {
  v1::JobSpec spec = SmallSpec(name);
  spec.mutable_training()->set_steps(steps);
  spec.mutable_resources()->set_workers(num_workers);
  spec.mutable_checkpoint()->set_dir(directory.Path(name));
  v1::DataSource& source = *spec.mutable_data()->add_train();
  source.set_path(directory.Path("text.txt"));
  source.set_format("text");
  return spec;
}

std::string ServiceHarness::Submit(const v1::JobSpec& spec) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  v1::SubmitJobResponse response;
  const grpc::Status status = client_->SubmitJob(&context, request, &response);
  STAGECOACH_CHECK(status.ok());
  return response.job();
}

std::vector<v1::JobEvent> ServiceHarness::FollowToEnd(const v1::FollowJobRequest& request, grpc::Status& end) {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = client_->FollowJob(&context, request);
  std::vector<v1::JobEvent> events;
  for (v1::JobEvent event; stream->Read(&event);) events.push_back(event);
  end = stream->Finish();
  return events;
}

bool ServiceHarness::WaitForWorker(const std::string& name, v1::WorkerState state) {
  return WaitUntil([&] {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListWorkersResponse response;
    STAGECOACH_CHECK(client_->ListWorkers(&context, {}, &response).ok());
    return std::any_of(response.workers().begin(), response.workers().end(),
                       [&](const auto& worker) { return worker.name() == name && worker.state() == state; });
  });
}

bool ServiceHarness::WaitForStreams(size_t number) {
  return WaitUntil([&] { return server->num_streams() == number; });
}

}  // namespace stagecoach
