#include "client/embedded/embedded_run.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/plan/planner.h"
#include "worker/agent/agent.h"
#include "worker/data/text_batch_source.h"
#include "worker/model/device_stage_state.h"
#include "worker/model/layered_stage.h"
#include "worker/session/in_process_session.h"
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
      events_(std::make_shared<MessageQueue<absl::StatusOr<v1::JobEvent>>>(kEventCapacity)),
      store_(std::make_unique<MemoryStore>()),
      fabric_(std::make_shared<InProcessFabric>()) {}

EmbeddedRun::~EmbeddedRun() {
  if (coordinator_ != nullptr) coordinator_->Stop();
}

// The follower is there before any worker is, so that it misses no step.
absl::Status EmbeddedRun::Submit(const v1::JobSpec& spec) {
  STAGECOACH_ASSIGN_OR_RETURN(
      coordinator_,
      Coordinator::Create({.store = *store_,
                           .clock = Clock::Real(),
                           .files = options_.files,
                           .planner = PlanJob,
                           // Nothing comes between workers and a coordinator of the same process.
                           .fleet = {.lease = absl::InfiniteDuration(), .suspect_grace = absl::ZeroDuration()}}));
  v1::SubmitJobRequest submission;
  *submission.mutable_spec() = spec;
  submission.mutable_spec()->mutable_resources()->set_workers(options_.num_workers);
  STAGECOACH_ASSIGN_OR_RETURN(job_, coordinator_->SubmitJob(submission));
  v1::FollowJobRequest request;
  request.set_job(job_.value());
  const auto push = [events = events_](absl::StatusOr<v1::JobEvent> event) {
    const absl::Status pushed = events->Push(std::move(event));
    if (!pushed.ok()) events->Close();  // a reader that far behind is told that events are missing
    return pushed;
  };
  return coordinator_
      ->FollowJob(request, {.on_event = push,
                            .on_end =
                                [push](const absl::Status& status) {
                                  if (!status.ok()) push(status).IgnoreError();
                                }})
      .status();
}

absl::Status EmbeddedRun::StartWorkers(uint32_t threads) {
  STAGECOACH_ASSIGN_OR_RETURN(AgentOptions agent_options,
                              DescribeWorker(options_, threads, InProcessTransportFactory(fabric_)));
  for (uint32_t index = 0; index < options_.num_workers; ++index) {
    agent_options.worker = WorkerId(absl::StrCat("worker-", index));
    agent_options.incarnation = NewIncarnation();
    workers_.push_back(Agent::Start(
        agent_options, [this, incarnation = agent_options.incarnation] { return OpenSession(incarnation); }));
  }
  return absl::OkStatus();
}

// The worker's first message, Hello, connects it; everything after goes to the coordinator's queue.
std::unique_ptr<Session> EmbeddedRun::OpenSession(Incarnation incarnation) {
  auto to_worker = std::make_shared<ReceivedMessages>(InProcessSession::kQueueCapacity);
  const auto session = std::make_shared<std::atomic<uint64_t>>();  // 0: not connected
  const auto deliver = [coordinator = coordinator_.get(), incarnation, to_worker, session](v1::WorkerMessage message) {
    if (!message.has_hello()) return coordinator->Deliver(SessionId(session->load()), std::move(message));
    const absl::StatusOr<SessionId> connected = coordinator->ConnectWorker(
        message.hello(), incarnation,
        {.send = [to_worker](v1::CoordinatorMessage reply) { return to_worker->Push(std::move(reply)); },
         .end = [to_worker](const absl::Status& why) { to_worker->End(why); }});
    if (connected.ok()) session->store(connected->value());
    return connected.status();
  };
  const auto on_close = [coordinator = coordinator_.get(), session] {
    // It may have been stopped.
    coordinator->EndSession(SessionId(session->load()), absl::UnavailableError("the worker's session ended"))
        .IgnoreError();
  };
  return std::make_unique<InProcessSession>(to_worker, deliver, on_close);
}

// A step that announces its validation loss is held back for it, or for what comes in its stead.
absl::StatusOr<FollowEvent> EmbeddedRun::NextEvent(absl::Duration timeout) {
  if (next_.has_value()) return *std::exchange(next_, std::nullopt);
  while (true) {
    STAGECOACH_ASSIGN_OR_RETURN(const absl::StatusOr<v1::JobEvent> event, events_->Pop(timeout));
    std::optional<FollowEvent> found;
    if (!event.ok()) {
      found = event.status();
    } else if (event->has_status()) {
      found = event->status();
    } else if (event->has_validation() && held_step_.has_value()) {
      held_step_->set_validation_loss(event->validation().loss());
      return FollowEvent(*std::exchange(held_step_, std::nullopt));
    } else if (event->has_step()) {
      if (event->step().validation_follows() && !held_step_.has_value()) {
        held_step_ = event->step();
        continue;
      }
      found = event->step();
    }
    if (!found.has_value()) continue;
    if (!held_step_.has_value()) return *std::move(found);
    next_ = std::move(found);
    return FollowEvent(*std::exchange(held_step_, std::nullopt));
  }
}

absl::Status EmbeddedRun::Cancel() { return coordinator_->CancelJob(job_); }

absl::StatusOr<v1::Job> EmbeddedRun::Describe() { return coordinator_->DescribeJob(job_); }

}  // namespace stagecoach
