#include "coordinator/service/testing/service_harness.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/file_system.h"
#include "coordinator/spec/job_spec_parser.h"
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

v1::JobSpec CompleteSpec(const std::string& name, const TemporaryDirectory& directory, uint32_t num_workers,
                         uint64_t steps) {
  const std::string text = directory.Path("text.txt");
  STAGECOACH_CHECK(WriteFileAtomically(FileSystem::Posix(), text, std::string(16 * 24 + 1, 'x')).ok());
  const std::string yaml = absl::StrCat(
      "{version: 1, name: ", name, ", model: {architecture: gpt2, config: {num_hidden_layers: ", num_workers,
      ", hidden_size: 8, num_attention_heads: 1, vocab_size: 256, max_position_embeddings: 16}}, data: {train: "
      "[{path: ",
      text, "}]}, training: {seq_len: 16, global_batch_size: 8, micro_batch_size: 2, steps: ", steps,
      "}, optimizer: {name: sgd, lr: 0.5}, lr_scheduler: {name: constant}, resources: {workers: ", num_workers,
      "}, checkpoint: {dir: ", directory.Path(name), "}}");
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(yaml, {}, errors);
  for (const SpecError& error : errors) std::cerr << FormatSpecError(name, error) << "\n";
  STAGECOACH_CHECK(spec.ok());
  return *std::move(spec);
}

void SetDeadline(grpc::ClientContext& context) { context.set_deadline(std::chrono::system_clock::now() + kLong); }

ServiceHarness::ServiceHarness(const ServiceOptions& options, const ListenAddress& listen) {
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
