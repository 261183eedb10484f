#include "worker/agent/executor_thread.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/snapshots.h"
#include "common/status_macros.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/state_source.h"
#include "worker/profile/layer_measurement.h"

namespace stagecoach {
namespace {

// For a shard that is being written to come to its end once it is interrupted. A disk that needs longer is lost.
constexpr absl::Duration kShardTimeout = absl::Seconds(30);
constexpr absl::Duration kInterruptInterval = absl::Milliseconds(20);

ShardIdentity IdentityOf(const TransportFence& fence) {
  return {.job = fence.job, .epoch = fence.epoch, .incarnation = fence.incarnation};
}

}  // namespace

ExecutorThread::ExecutorThread(const AgentOptions& options, Tells tells)
    : options_(options),
      tells_(std::move(tells)),
      interrupts_(options.clock),
      held_(options),
      snapshots_(options.files),
      thread_("executor", [this] { Loop(); }) {}

ExecutorThread::~ExecutorThread() {
  interrupts_.Interrupt(std::numeric_limits<uint64_t>::max(), absl::AbortedError("the worker ends"));
  commands_.Close();
  thread_.Join();
}

void ExecutorThread::Submit(ExecutorCommand command) { STAGECOACH_CHECK(commands_.Push(std::move(command)).ok()); }

ExecutorReply ExecutorThread::TakeReply() { return std::move(reply_); }

std::optional<v1::RunState> ExecutorThread::run_state() const {
  MutexLock lock(mutex_);
  return visible_epoch_ == nullptr ? std::nullopt : visible_epoch_->run_state();
}

ExecutorThread::Progress ExecutorThread::progress() const {
  MutexLock lock(mutex_);
  return progress_;
}

void ExecutorThread::DestroyEpoch() {
  {
    MutexLock lock(mutex_);
    visible_epoch_ = nullptr;
  }
  epoch_interrupt_.reset();
  epoch_.reset();
}

void ExecutorThread::Loop() {
  while (true) {
    absl::StatusOr<ExecutorCommand> command = commands_.Pop(absl::InfiniteDuration());
    if (command.status().code() == absl::StatusCode::kDeadlineExceeded) continue;
    if (!command.ok()) break;
    reply_.generation = command->generation;
    reply_.fence = command->fence;
    reply_.is_verdict =
        std::holds_alternative<CommitCommand>(command->body) || std::holds_alternative<AbortCommand>(command->body);
    reply_.body = std::visit([&](auto& body) { return Execute(*command, body); }, command->body);
    {
      MutexLock lock(mutex_);
      progress_.job = command->fence.job;
      progress_.applied_step = held_.applied_step();
      progress_.prepared_step = held_.prepared_step();
    }
    tells_.reply();
  }
  // On this thread, as all else that touches the device.
  DestroyEpoch();
  snapshots_.Stop(absl::InfiniteDuration()).IgnoreError();
  ReleaseState();
}

absl::Status ExecutorThread::StopSnapshots(uint64_t generation) {
  const absl::Duration deadline = Clock::Real().Now() + kShardTimeout;
  while (true) {
    const absl::Status stopped = snapshots_.Stop(kInterruptInterval);
    if (!absl::IsDeadlineExceeded(stopped) || Clock::Real().Now() >= deadline) return stopped;
    STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(generation));
  }
}

// A buffer that a disk still reads from is freed with the next state.
void ExecutorThread::ReleaseState() {
  if (const absl::Status stopped = snapshots_.Stop(kShardTimeout); stopped.ok()) {
    snapshots_.Free();
  } else {
    spdlog::warn("worker {}: {}", options_.worker.value(), std::string(stopped.message()));
  }
  held_.Release();
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& /*command*/, ReleaseCommand& /*release*/) {
  DestroyEpoch();
  ReleaseState();
  if (options_.observer != nullptr) options_.observer->OnReleased();
  return ReleasedReply{};
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, PrepareCommand& prepare) {
  absl::StatusOr<PreparedReply> prepared = Prepare(command, prepare);
  if (!prepared.ok()) return ExecutorFailure{prepared.status(), Step(0), ""};
  return *std::move(prepared);
}

absl::StatusOr<PreparedReply> ExecutorThread::Prepare(const ExecutorCommand& command, PrepareCommand& prepare) {
  DestroyEpoch();
  const auto assignment = std::make_shared<const v1::AssignStages>(std::move(prepare.assignment));
  // Even when interrupted: the assignment may carry the verdict of what is prepared.
  STAGECOACH_RETURN_IF_ERROR(held_.ApplyIfPrepared(assignment->last_commit()));
  STAGECOACH_RETURN_IF_ERROR(StopSnapshots(command.generation));
  const bool takes_snapshots = TakesSnapshots(assignment->spec().checkpoint());
  // Before a new state is built: there is room for one of each.
  if (!takes_snapshots || !held_.CanKeep(*assignment)) snapshots_.Free();
  STAGECOACH_RETURN_IF_ERROR(held_.Prepare(assignment, interrupts_, command.generation));
  if (takes_snapshots && !snapshots_.is_allocated()) {
    STAGECOACH_RETURN_IF_ERROR(snapshots_.Allocate(held_.device(), held_.states()));
  }
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<WorkerEpoch> epoch, WorkerEpoch::Create({.options = options_,
                                                                                       .device = held_.device(),
                                                                                       .states = held_.states(),
                                                                                       .assignment = assignment,
                                                                                       .fence = command.fence,
                                                                                       .trace = trace_}));
  trace_.BeginJob(command.fence.job);
  PreparedReply reply{.endpoint = epoch->endpoint(),
                      .applied_step = held_.applied_step(),
                      .state_bytes = held_.state_bytes(),
                      .arena_bytes = epoch->arena_bytes()};
  if (options_.observer != nullptr) {
    options_.observer->OnStagesPrepared(
        command.fence.job, assignment->program(),
        {.state = reply.state_bytes, .arena = reply.arena_bytes, .snapshot = snapshots_.bytes()});
  }
  epoch_ = std::move(epoch);
  epoch_interrupt_ = std::make_unique<Interrupts::Registration>(
      interrupts_, command.generation, [this](const absl::Status& reason) { epoch_->Abort(reason); });
  MutexLock lock(mutex_);
  visible_epoch_ = epoch_.get();
  return reply;
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, ConnectCommand& connect) {
  absl::Status status = interrupts_.Check(command.generation);
  if (status.ok() && epoch_ == nullptr) status = absl::FailedPreconditionError("no stages are assigned");
  if (!status.ok()) return ExecutorFailure{status, Step(0), ""};
  absl::StatusOr<std::vector<std::string>> routes = epoch_->Connect(connect.peers);
  if (!routes.ok()) return ExecutorFailure{WithContext(routes.status(), "connecting to the peers"), Step(0), ""};
  return ConnectedReply{*std::move(routes)};
}

absl::Status ExecutorThread::CheckMayRun(const ExecutorCommand& command, const v1::RunStep& order) const {
  STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(command.generation));
  if (epoch_ == nullptr) return absl::FailedPreconditionError("no stages are assigned");
  const Step step(order.step());
  return order.evaluation() ? held_.CheckMayEvaluate(step) : held_.CheckMayRun(step);
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, RunCommand& run) {
  const v1::RunStep& order = run.order;
  const Step step(order.step());
  if (const absl::Status may = CheckMayRun(command, order); !may.ok()) return ExecutorFailure{may, step, ""};
  if (!order.evaluation()) {
    trace_.NoteUpdate(absl::ToInt64Nanoseconds(held_.last_update().begin),
                      absl::ToInt64Nanoseconds(held_.last_update().end));
  }
  const absl::StatusOr<const RunReport*> report = epoch_->Run(order);
  if (!report.ok()) return ExecutorFailure{report.status(), step, epoch_->LastAction(order)};
  if (!order.evaluation()) held_.SetPrepared(step);
  if (options_.observer != nullptr) {
    options_.observer->OnRun(command.fence.job, epoch_->program_of(order), **report);
  }
  return RanReply{.step = step,
                  .evaluation = order.evaluation(),
                  .first_sample = order.first_sample(),
                  .report = *report,
                  .update_seconds = order.evaluation() ? 0 : held_.TakeUpdateSeconds()};
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& /*command*/, CommitCommand& commit) {
  absl::StatusOr<AppliedReply> applied = Commit(commit.commit);
  if (!applied.ok()) return ExecutorFailure{applied.status(), Step(commit.commit.record().step()), ""};
  return *std::move(applied);
}

absl::StatusOr<AppliedReply> ExecutorThread::Commit(const v1::CommitStep& commit) {
  STAGECOACH_RETURN_IF_ERROR(held_.Commit(commit.record()));
  AppliedReply reply{.step = Step(commit.record().step()), .num_updates = held_.num_updates(), .digests = {}};
  if (commit.want_digests()) STAGECOACH_RETURN_IF_ERROR(AddDigests(reply));
  if (commit.snapshot()) TakeSnapshot(reply);
  return reply;
}

absl::Status ExecutorThread::AddDigests(AppliedReply& reply) {
  for (StageState* state : held_.states()) {
    for (const StateTensor& tensor : state->tensors()) {
      if (!tensor.owned) continue;
      STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, state->Digest(held_.stream(), tensor.tensor));
      reply.digests.push_back({&tensor, digest});
    }
  }
  return absl::OkStatus();
}

// The step is applied whether or not there is a copy of it: whoever asks for its shard is told.
void ExecutorThread::TakeSnapshot(const AppliedReply& applied) {
  std::map<std::string, TensorDigest> digests;
  for (const AppliedReply::Digest& digest : applied.digests) digests.emplace(digest.tensor->name, digest.digest);
  const absl::Duration start = Clock::Real().Now();
  if (const absl::Status taken = snapshots_.Take(held_.stream(), std::move(digests)); !taken.ok()) {
    spdlog::warn("worker {}: no snapshot of step {}: {}", options_.worker.value(), applied.step.value(),
                 std::string(taken.message()));
    return;
  }
  spdlog::info("worker {}: snapshot of step {} in {:.3f} s", options_.worker.value(), applied.step.value(),
               absl::ToDoubleSeconds(Clock::Real().Now() - start));
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, WriteShardCommand& write) {
  absl::StatusOr<v1::ShardWritten> written = WriteShard(command, write.order);
  if (!written.ok()) return ShardFailure{written.status(), Step(write.order.step()), write.order.file()};
  return ShardReply{*std::move(written)};
}

absl::StatusOr<v1::ShardWritten> ExecutorThread::WriteShard(const ExecutorCommand& command,
                                                            const v1::WriteCheckpoint& order) {
  STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(command.generation));
  if (!held_.has_state()) return absl::FailedPreconditionError("no state is held");
  if (snapshots_.is_writing()) return absl::ResourceExhaustedError("another shard is being written");
  const std::vector<StageState*> states = held_.states();
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<StateSource> source,
                              StateSource::Create(held_.device(), held_.stream(), states, Step(order.step())));
  return ShardWriter(options_.files, IdentityOf(command.fence))
      .Write(*source, order, [this, generation = command.generation] { return interrupts_.Check(generation); });
}

absl::Status ExecutorThread::WriteSnapshot(uint64_t generation, const TransportFence& fence,
                                           const v1::WriteCheckpoint& order) {
  const auto on_end = [this, generation, fence, step = Step(order.step()),
                       file = order.file()](absl::StatusOr<v1::ShardWritten> end) {
    ExecutorReply reply{.generation = generation, .fence = fence};
    if (end.ok()) {
      reply.body = ShardReply{*std::move(end)};
    } else {
      reply.body = ShardFailure{end.status(), step, file};
    }
    tells_.shard(std::move(reply));
  };
  return snapshots_.Write({.write = order,
                           .identity = IdentityOf(fence),
                           .may_go_on = [this, generation] { return interrupts_.Check(generation); },
                           .on_end = on_end});
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& /*command*/, AbortCommand& abort) {
  DestroyEpoch();
  snapshots_.Drop();
  if (const absl::Status applied = held_.ApplyIfPrepared(abort.last_commit); !applied.ok()) {
    return ExecutorFailure{applied, Step(abort.last_commit.step()), ""};
  }
  return AbortedReply{.applied_step = held_.applied_step(), .prepared_step = held_.prepared_step()};
}

// Of what was interrupted nobody waits for an answer.
ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, MeasureCommand& measure) {
  absl::StatusOr<v1::LayersMeasured> measured = Measure(command, measure.order);
  if (const absl::Status interrupt = interrupts_.Check(command.generation); !interrupt.ok()) return ReleasedReply{};
  if (measured.ok()) return MeasuredReply{*std::move(measured)};
  return MeasuredReply{NothingMeasured(measure.order, measured.status().message())};
}

// On a device of its own, which is gone when the answer is there.
absl::StatusOr<v1::LayersMeasured> ExecutorThread::Measure(const ExecutorCommand& command,
                                                           const v1::MeasureLayers& order) {
  STAGECOACH_RETURN_IF_ERROR(interrupts_.Check(command.generation));
  if (order.threads() == 0 || order.threads() > options_.max_threads) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job wants ", order.threads(), " threads, this worker has ", options_.max_threads));
  }
  if (!options_.layer_profiler_factory) return absl::UnimplementedError("this worker does not measure");
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                              options_.device_factory(DeviceOptions{.threads = static_cast<int>(order.threads())}));
  const std::unique_ptr<LayerProfiler> profiler = options_.layer_profiler_factory(
      {.device = *device, .clock = options_.clock, .memory_bytes = options_.memory_bytes});
  return MeasureAll(order, *profiler, options_.clock,
                    [this, &command] { return interrupts_.Check(command.generation); });
}

}  // namespace stagecoach
