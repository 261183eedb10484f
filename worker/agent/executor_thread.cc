#include "worker/agent/executor_thread.h"

#include <limits>
#include <utility>

#include "common/check.h"
#include "common/status_macros.h"
#include "worker/checkpoint/shard_writer.h"

namespace stagecoach {

ExecutorThread::ExecutorThread(const AgentOptions& options, std::function<void()> on_reply)
    : options_(options),
      on_reply_(std::move(on_reply)),
      interrupts_(options.clock),
      held_(options),
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
    on_reply_();
  }
  // On this thread, as all else that touches the device.
  DestroyEpoch();
  held_.Release();
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& /*command*/, ReleaseCommand& /*release*/) {
  DestroyEpoch();
  held_.Release();
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
  STAGECOACH_RETURN_IF_ERROR(held_.Prepare(assignment, interrupts_, command.generation));
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<WorkerEpoch> epoch, WorkerEpoch::Create({.options = options_,
                                                                                       .device = held_.device(),
                                                                                       .states = held_.states(),
                                                                                       .assignment = assignment,
                                                                                       .fence = command.fence}));
  PreparedReply reply{.endpoint = epoch->endpoint(),
                      .applied_step = held_.applied_step(),
                      .state_bytes = held_.state_bytes(),
                      .arena_bytes = epoch->arena_bytes()};
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
  const absl::StatusOr<const RunReport*> report = epoch_->Run(order);
  if (!report.ok()) return ExecutorFailure{report.status(), step, epoch_->LastAction(order)};
  if (!order.evaluation()) held_.SetPrepared(step);
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
  if (!commit.want_digests()) return reply;
  for (StageState* state : held_.states()) {
    for (const StateTensor& tensor : state->tensors()) {
      if (!tensor.owned) continue;
      STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, state->Digest(held_.stream(), tensor.tensor));
      reply.digests.push_back({&tensor, digest});
    }
  }
  return reply;
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& command, WriteShardCommand& write) {
  absl::Status status = interrupts_.Check(command.generation);
  if (status.ok() && !held_.has_state()) status = absl::FailedPreconditionError("no state is held");
  const Step step(write.order.step());
  if (!status.ok()) return ExecutorFailure{status, step, ""};
  const TransportFence& fence = command.fence;
  ShardWriter writer(options_.files, held_.device(),
                     {.job = fence.job, .epoch = fence.epoch, .incarnation = fence.incarnation});
  absl::StatusOr<v1::ShardWritten> written =
      writer.Write(held_.stream(), held_.states(), write.order,
                   [this, generation = command.generation] { return interrupts_.Check(generation); });
  if (!written.ok()) return ExecutorFailure{WithContext(written.status(), "writing a shard"), step, ""};
  return ShardReply{*std::move(written)};
}

ExecutorThread::ReplyBody ExecutorThread::Execute(const ExecutorCommand& /*command*/, AbortCommand& abort) {
  DestroyEpoch();
  if (const absl::Status applied = held_.ApplyIfPrepared(abort.last_commit); !applied.ok()) {
    return ExecutorFailure{applied, Step(abort.last_commit.step()), ""};
  }
  return AbortedReply{.applied_step = held_.applied_step(), .prepared_step = held_.prepared_step()};
}

}  // namespace stagecoach
