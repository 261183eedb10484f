#include "client/embedded/embedded_run.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/embedded/in_process_session.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/plan/planner.h"
#include "worker/agent/agent.h"
#include "worker/data/text_batch_source.h"
#include "worker/model/device_stage_state.h"
#include "worker/model/layered_stage.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {
namespace {

// Steps that may be waiting to be shown.
constexpr size_t kEventCapacity = 1 << 20;

Incarnation NewIncarnation() {
  std::random_device random;
  return Incarnation(uint64_t{random()} << 32 | random());
}

// Of one worker, but for who it is. What the device is able to do is asked of a device that is then thrown away: a
// job's device belongs to the executor's thread.
absl::StatusOr<AgentOptions> DescribeWorker(const EmbeddedRun::Options& options, uint32_t threads,
                                            TransportFactory transport) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, options.device(DeviceOptions{.threads = 1}));
  const DeviceCapabilities& capabilities = device->capabilities();
  return AgentOptions{
      .worker = {},
      .incarnation = {},
      .numerics_class = capabilities.numerics_class,
      .memory_bytes = capabilities.memory_bytes / options.num_workers,
      .max_threads = std::max(threads, std::thread::hardware_concurrency()),
      .device_factory = options.device,
      .transport_factory = std::move(transport),
      .batch_source_factory = [](const v1::JobSpec& spec,
                                 FileSystem& files) -> absl::StatusOr<std::unique_ptr<BatchSource>> {
        return TextBatchSource::Create(spec.data(), spec.training().seq_len(), files);
      },
      .stage_state_factory = StageState::Create,
      .stage_factory = [](Device& on, const v1::JobSpec& spec, const v1::ModelGraph& graph, LayerIndex first,
                          LayerIndex last, const StageState& state) -> absl::StatusOr<std::unique_ptr<Stage>> {
        return LayeredStage::Create(on, spec, graph, first, last, state);
      },
      .files = options.files};
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedRun>> EmbeddedRun::Start(const v1::JobSpec& spec, Options options) {
  auto run = absl::WrapUnique(new EmbeddedRun(std::move(options)));
  STAGECOACH_RETURN_IF_ERROR(run->Submit(spec));
  STAGECOACH_RETURN_IF_ERROR(run->StartWorkers(spec.resources().threads_per_worker()));
  return run;
}

EmbeddedRun::EmbeddedRun(Options options)
    : options_(std::move(options)),
      events_(std::make_shared<MessageQueue<FollowEvent>>(kEventCapacity)),
      store_(std::make_unique<MemoryStore>()),
      fabric_(std::make_shared<InProcessFabric>()) {}

EmbeddedRun::~EmbeddedRun() {
  if (coordinator_ != nullptr) coordinator_->Stop();
}

// The follower is there before any worker is, so that it misses no step.
absl::Status EmbeddedRun::Submit(const v1::JobSpec& spec) {
  STAGECOACH_ASSIGN_OR_RETURN(
      coordinator_,
      Coordinator::Create({.store = *store_, .clock = Clock::Real(), .files = options_.files, .planner = PlanJob}));
  v1::JobSpec submitted = spec;
  submitted.mutable_resources()->set_workers(options_.num_workers);
  STAGECOACH_ASSIGN_OR_RETURN(job_, coordinator_->SubmitJob(submitted));
  return coordinator_->Follow(job_, [events = events_](const FollowEvent& event) {
    if (!events->Push(event).ok()) events->Close();  // a reader that far behind is told that events are missing
  });
}

absl::Status EmbeddedRun::StartWorkers(uint32_t threads) {
  STAGECOACH_ASSIGN_OR_RETURN(AgentOptions agent_options,
                              DescribeWorker(options_, threads, InProcessTransportFactory(fabric_)));
  for (uint32_t index = 0; index < options_.num_workers; ++index) {
    agent_options.worker = WorkerId(absl::StrCat("worker-", index));
    agent_options.incarnation = NewIncarnation();
    STAGECOACH_ASSIGN_OR_RETURN(workers_.emplace_back(), Agent::Create(agent_options, OpenSession(agent_options)));
  }
  return absl::OkStatus();
}

// The worker's first message, Hello, connects it; everything after goes to the coordinator's queue.
std::unique_ptr<Session> EmbeddedRun::OpenSession(const AgentOptions& agent) {
  auto to_worker = std::make_shared<InProcessSession::ToWorker>(InProcessSession::kQueueCapacity);
  const auto deliver = [coordinator = coordinator_.get(), worker = agent.worker, incarnation = agent.incarnation,
                        to_worker](v1::WorkerMessage message) {
    if (!message.has_hello()) return coordinator->Deliver(worker, std::move(message));
    return coordinator->ConnectWorker(message.hello(), incarnation, [to_worker](v1::CoordinatorMessage reply) {
      return to_worker->Push(std::move(reply));
    });
  };
  // An agent closes its session when it cannot go on, also because the coordinator's queue was full: say so, or it
  // waits.
  const auto on_close = [coordinator = coordinator_.get(), worker = agent.worker, incarnation = agent.incarnation] {
    const absl::Status why = absl::UnavailableError("the worker's session ended");
    while (absl::IsResourceExhausted(coordinator->WorkerLost(worker, incarnation, why))) std::this_thread::yield();
  };
  return std::make_unique<InProcessSession>(to_worker, deliver, on_close);
}

absl::StatusOr<FollowEvent> EmbeddedRun::NextEvent(absl::Duration timeout) { return events_->Pop(timeout); }

absl::Status EmbeddedRun::Cancel() { return coordinator_->CancelJob(job_); }

absl::StatusOr<JobDescription> EmbeddedRun::Describe() { return coordinator_->DescribeJob(job_); }

}  // namespace stagecoach
