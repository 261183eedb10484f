#include "worker/agent/agent.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/agent/report_messages.h"
#include "worker/agent/trace_messages.h"
#include "worker/profile/layer_measurement.h"

namespace stagecoach {
namespace {

// A coordinator has a handful of messages under way.
constexpr size_t kInboxCapacity = 1024;
constexpr size_t kMaxLinesPerMessage = 64;

// A verdict that has come is applied, an abort answered and a job released, whatever comes after them.
bool MustBeDone(const ExecutorCommand& command) {
  return std::holds_alternative<CommitCommand>(command.body) || std::holds_alternative<AbortCommand>(command.body) ||
         std::holds_alternative<ReleaseCommand>(command.body);
}

// What an answer says that the interruption of its command does not explain: what became of an abort or of a verdict,
// and failures that are causes and not consequences.
bool MustBeTold(const ExecutorReply& reply) {
  if (std::holds_alternative<AbortedReply>(reply.body)) return true;
  const auto* failure = std::get_if<ExecutorFailure>(&reply.body);
  if (failure == nullptr) return false;
  return reply.is_verdict || !(absl::IsAborted(failure->status) || absl::IsUnavailable(failure->status) ||
                               absl::IsCancelled(failure->status));
}

// Nothing else says what became of a shard: what it says waits for a session.
bool IsOfShard(const ExecutorReply& reply) {
  return std::holds_alternative<ShardReply>(reply.body) || std::holds_alternative<ShardFailure>(reply.body);
}

std::string DescribeStages(const v1::StageProgram& program) {
  std::string text;
  for (const v1::StageSlots& stage : program.stages()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "stage ", stage.stage(), " (layers ", stage.first_layer(), " to ",
                    stage.last_layer(), ")");
  }
  return text;
}

// Dialling again would end the same way.
bool EndsTheWorker(const absl::Status& why) {
  return absl::IsAborted(why) || absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why);
}

}  // namespace

std::unique_ptr<Agent> Agent::Start(AgentOptions options, SessionDialer dialer) {
  return absl::WrapUnique(new Agent(std::move(options), std::move(dialer)));
}

Agent::Agent(AgentOptions options, SessionDialer dialer)
    : options_(std::move(options)),
      inbox_(kInboxCapacity),
      filter_(options_.incarnation),
      executor_(options_, {.reply = [this] { PushSurely(inbox_, ReplyIsThere{}); },
                           .shard = [this](ExecutorReply reply) { PushSurely(inbox_, ShardEnded{std::move(reply)}); }}),
      keeper_(options_, std::move(dialer),
              {.hello = [this] { return MakeHello(); }, .heartbeat = [this] { return MakeHeartbeat(); }}, inbox_),
      thread_("agent", [this] { Loop(); }) {}

Agent::~Agent() {
  PushSurely(inbox_, StopRequested{});
  thread_.Join();
}

void Agent::Leave(const std::string& reason) { PushSurely(inbox_, LeaveRequested{reason}); }

std::optional<absl::Status> Agent::Wait(absl::Duration timeout) {
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  while (!ended_.has_value() && ended_changed_.WaitUntil(mutex_, deadline)) {
  }
  return ended_;
}

AgentStatus Agent::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void Agent::Loop() {
  while (!stopped_) {
    if (options_.beat != nullptr) options_.beat->Turn();
    const absl::StatusOr<InboxItem> item = inbox_.Pop(keeper_.UntilDue());
    // First: a message that came while the process stood still does not act without a lease.
    while (const auto deed = keeper_.DoDue()) Do(*deed);
    if (item.ok() && !stopped_) Handle(*item);
    executor_.interrupts().SetLeaseEnd(keeper_.lease_end());
    SendLogLines();
    if (options_.observer != nullptr) options_.observer->OnSession(num_welcomes_, keeper_.is_up());
    MutexLock lock(mutex_);
    status_.in_session = keeper_.is_up();
    status_.num_sessions = num_welcomes_;
    status_.holds_job = holds_job_;
    status_.last_commit = last_commit_;
  }
  inbox_.Close();
  keeper_.Stop();
}

void Agent::End(const absl::Status& why) {
  if (stopped_) return;
  stopped_ = true;
  executor_.interrupts().Interrupt(generation_, absl::AbortedError("the worker ends"));
  {
    MutexLock lock(mutex_);
    ended_ = why;
    ended_changed_.NotifyAll();
  }
  if (options_.on_end) options_.on_end();
}

void Agent::Do(SessionRules::Deed deed) {
  switch (deed) {
    case SessionRules::Deed::kQuiesce:
      return Quiesce();
    case SessionRules::Deed::kDropState:
      return DropJob("no session for too long");
    case SessionRules::Deed::kAbandon:
      spdlog::warn("worker {}: not dismissed in time, and leaves all the same", options_.worker.value());
      return End(absl::OkStatus());
    default:
      return End(absl::UnavailableError(absl::StrCat("no session with the coordinator for ",
                                                     absl::FormatDuration(options_.session.dial_timeout), ": ",
                                                     keeper_.last_end().message())));
  }
}

// Parameters and prepared gradients stay. What is asked for in this epoch from now on fails: its transport is aborted.
void Agent::Quiesce() {
  if (!holds_job_) return;
  spdlog::warn("worker {}: the lease is over; job {} stands still", options_.worker.value(), filter_.job().value());
  executor_.interrupts().Interrupt(generation_, absl::AbortedError("the worker's lease was over"));
}

void Agent::DropJob(const std::string& reason) {
  if (!holds_job_) return;
  spdlog::warn("worker {}: job {} is dropped: {}", options_.worker.value(), filter_.job().value(), reason);
  BeginGeneration(reason);
  SetJob(false);
  Submit(filter_.FenceOf(filter_.job(), filter_.epoch()), ReleaseCommand{});
}

void Agent::BeginLeaving(const std::string& reason) {
  if (leaving_) return;
  spdlog::info("worker {}: leaving: {}", options_.worker.value(), reason);
  leaving_ = reason;
  if (!keeper_.is_up() && !holds_job_) return End(absl::OkStatus());
  keeper_.OnLeaving();
  SendLeaving();
}

void Agent::SendLeaving() {
  if (!leaving_ || !keeper_.is_up()) return;
  v1::WorkerMessage message;
  message.mutable_leaving()->set_reason(*leaving_);
  *message.mutable_fence() = filter_.FenceOf(JobId(), Epoch());
  keeper_.Send(std::move(message));
}

void Agent::Handle(const InboxItem& item) {
  if (const auto* from_session = std::get_if<FromSession>(&item)) return Handle(*from_session);
  if (const auto* leave = std::get_if<LeaveRequested>(&item)) return BeginLeaving(leave->reason);
  if (std::holds_alternative<StopRequested>(item)) return End(absl::CancelledError("the worker was stopped"));
  if (const auto* shard = std::get_if<ShardEnded>(&item)) return Handle(shard->reply);
  const ExecutorReply reply = executor_.TakeReply();
  Handle(reply);
  busy_ = false;
  committing_ = Step(0);
  BeginAwaitedWrite();
  SubmitNext();
}

void Agent::Handle(const FromSession& item) {
  if (!keeper_.IsCurrent(item.session)) return;  // it was hung up
  if (!item.message.ok()) return HandleSessionEnd(item.message.status());
  Handle(*item.message);
}

void Agent::HandleSessionEnd(const absl::Status& why) {
  const bool was_up = keeper_.is_up();
  keeper_.OnEnded(why);
  // Of a session that has worked, only who takes its place is final.
  if (EndsTheWorker(why) && (!was_up || absl::IsAborted(why))) return End(why);
  if (leaving_ && !holds_job_) End(absl::OkStatus());
}

void Agent::Handle(v1::CoordinatorMessage message) {
  if (const char* reason = filter_.ReasonToDrop(message.fence()); reason != nullptr) {
    return Drop(message.fence(), reason);
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kHeartbeatReply:
      return keeper_.OnHeartbeatReply(message.heartbeat_reply());
    case v1::CoordinatorMessage::kWelcome:
      return HandleWelcome(message.welcome());
    case v1::CoordinatorMessage::kDismiss:
      return HandleDismiss();
    case v1::CoordinatorMessage::kAssignStages:
      return HandleAssign(message.fence(), *message.mutable_assign_stages());
    case v1::CoordinatorMessage::kAbort:
      return HandleAbort(message.fence(), message.abort());
    case v1::CoordinatorMessage::kRelease:
      return HandleRelease(message.fence());
    case v1::CoordinatorMessage::kReadTrace:
      return HandleReadTrace(message.read_trace());
    case v1::CoordinatorMessage::kMeasureLayers:
      return HandleMeasure(message.fence(), *message.mutable_measure_layers());
    default:
      return HandleOrder(message);
  }
}

void Agent::HandleWelcome(const v1::Welcome& welcome) {
  if (keeper_.is_up()) return;
  keeper_.OnWelcome(welcome);
  if (!keeper_.is_up()) return;
  executor_.interrupts().SetLeaseEnd(keeper_.lease_end());
  EndMeasurement();  // the coordinator asks again, if it still wants to know
  SendLeaving();
  if (unsent_shard_) Handle(*std::exchange(unsent_shard_, std::nullopt));
  BeginAwaitedWrite();
  SubmitNext();
  ++num_welcomes_;
}

void Agent::HandleDismiss() {
  spdlog::info("worker {}: dismissed", options_.worker.value());
  End(absl::OkStatus());
}

void Agent::Drop(const v1::Fence& fence, const char* reason) {
  spdlog::debug("worker {}: dropped a message of job {}, epoch {}: {}", options_.worker.value(), fence.job(),
                fence.epoch(), reason);
  MutexLock lock(mutex_);
  ++status_.dropped_messages;
}

void Agent::HandleAssign(const v1::Fence& fence, v1::AssignStages& assignment) {
  const JobId job(fence.job());
  const Epoch epoch(fence.epoch());
  if (holds_job_ && job != filter_.job()) {
    filter_.NoteEnd(job, epoch);  // an earlier one that is late is not begun either
    return Refuse(fence, absl::FailedPreconditionError(
                             absl::StrCat("the worker still holds job ", filter_.job().value(), "; release it first")));
  }
  if (job == filter_.job() && epoch == filter_.epoch()) {
    // An abort or a release ends its epoch for good: what came before it may still be on its way.
    if (!assigned_) return Drop(fence, "its epoch was aborted or released");
    return Refuse(
        fence, absl::FailedPreconditionError(absl::StrCat("stages of epoch ", epoch.value(), " are assigned already")));
  }
  BeginGeneration(absl::StrCat("epoch ", epoch.value(), " begins"));
  filter_.Adopt(job, epoch);
  if (!holds_job_) SetJob(true);
  assigned_ = true;
  stages_.clear();
  for (const v1::StageSlots& stage : assignment.program().stages()) stages_.push_back(stage.stage());
  NoteCommit(assignment.last_commit());
  spdlog::info("worker {}: job {}, epoch {}: {}", options_.worker.value(), job.value(), epoch.value(),
               DescribeStages(assignment.program()));
  Submit(fence, PrepareCommand{std::move(assignment)});
}

void Agent::HandleAbort(const v1::Fence& fence, const v1::Abort& abort) {
  if (!holds_job_ || fence.job() != filter_.job().value()) {
    v1::WorkerMessage message = ToMessage(AbortedReply{});
    *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
    NoteEndOfOtherJob(fence);
    return keeper_.Send(std::move(message));
  }
  spdlog::info("worker {}: job {}: epoch {} ends: {}", options_.worker.value(), fence.job(), filter_.epoch().value(),
               abort.reason());
  BeginGeneration(abort.reason());
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  assigned_ = false;
  NoteCommit(abort.last_commit());
  Submit(fence, AbortCommand{abort.last_commit()});
}

void Agent::HandleRelease(const v1::Fence& fence) {
  if (fence.job().empty()) return EndMeasurement();
  if (!holds_job_ || fence.job() != filter_.job().value()) return NoteEndOfOtherJob(fence);
  spdlog::info("worker {}: job {} is released", options_.worker.value(), fence.job());
  BeginGeneration("the job was released");
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  SetJob(false);
  Submit(fence, ReleaseCommand{});
}

void Agent::HandleReadTrace(const v1::ReadTrace& order) {
  for (v1::TracePart& part : AnswerReadTrace(order, executor_.trace(), keeper_.clock_offset())) {
    v1::WorkerMessage message;
    *message.mutable_trace_part() = std::move(part);
    *message.mutable_fence() = filter_.FenceOf(JobId(), Epoch());
    keeper_.Send(std::move(message));
  }
}

// The worker is no member of the job yet: its epoch stays what it was. Whatever takes its place, an order to measure
// included, ends it.
void Agent::HandleMeasure(const v1::Fence& fence, v1::MeasureLayers& order) {
  if (holds_job_) {
    v1::WorkerMessage message =
        ToMessage(MeasuredReply{NothingMeasured(order, absl::StrCat("it holds job ", filter_.job().value()))});
    *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
    return keeper_.Send(std::move(message));
  }
  spdlog::info("worker {}: measures {} layers for job {}", options_.worker.value(), order.layers_size(), fence.job());
  BeginGeneration("others are to be measured");
  Submit(fence, MeasureCommand{std::move(order)});
}

void Agent::EndMeasurement() {
  if (!holds_job_) BeginGeneration("what was measured is not needed any more");
}

void Agent::NoteEndOfOtherJob(const v1::Fence& fence) {
  const JobId job(fence.job());
  const Epoch epoch(fence.epoch());
  if (holds_job_) {
    filter_.NoteEnd(job, epoch);
  } else {
    filter_.Adopt(job, epoch);
  }
}

void Agent::HandleOrder(v1::CoordinatorMessage& message) {
  const v1::Fence& fence = message.fence();
  const bool is_commit = message.has_commit_step();
  if (!holds_job_ || fence.job() != filter_.job().value() || fence.epoch() != filter_.epoch().value() ||
      (!assigned_ && !is_commit)) {
    return Refuse(fence, absl::FailedPreconditionError(absl::StrCat("no stages of job ", fence.job(), ", epoch ",
                                                                    fence.epoch(), " are assigned here")));
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kConnectPeers:
      return Submit(fence, ConnectCommand{std::move(*message.mutable_connect_peers())});
    case v1::CoordinatorMessage::kRunStep:
      return Submit(fence, RunCommand{std::move(*message.mutable_run_step())});
    case v1::CoordinatorMessage::kCommitStep:
      NoteCommit(message.commit_step().record());
      return Submit(fence, CommitCommand{std::move(*message.mutable_commit_step())});
    case v1::CoordinatorMessage::kWriteCheckpoint:
      return HandleWrite(fence, *message.mutable_write_checkpoint());
    default:
      return Refuse(fence, absl::UnimplementedError("a message of a kind that this worker does not know"));
  }
}

void Agent::HandleWrite(const v1::Fence& fence, v1::WriteCheckpoint& order) {
  if (!order.from_snapshot()) return Submit(fence, WriteShardCommand{std::move(order)});
  AwaitedWrite write{TransportFenceOf(fence), std::move(order)};
  if (awaited_write_) {
    return RefuseWrite(write, absl::ResourceExhaustedError(absl::StrCat(
                                  "a shard of step ", awaited_write_->order.step(), " is to be written already")));
  }
  awaited_write_ = std::move(write);
  BeginAwaitedWrite();
}

void Agent::RefuseWrite(const AwaitedWrite& write, const absl::Status& status) {
  Handle(ExecutorReply{.generation = generation_,
                       .fence = write.fence,
                       .body = ShardFailure{status, Step(write.order.step()), write.order.file()}});
}

// It does not wait for what the executor does, but for the commit that takes its snapshot.
void Agent::BeginAwaitedWrite() {
  if (!awaited_write_ || !keeper_.is_up()) return;
  const Step step(awaited_write_->order.step());
  const auto takes_it = [&](const ExecutorCommand& command) {
    const auto* commit = std::get_if<CommitCommand>(&command.body);
    return commit != nullptr && commit->commit.record().step() == step.value();
  };
  if (committing_ == step || std::any_of(waiting_.begin(), waiting_.end(), takes_it)) return;
  const AwaitedWrite write = *std::exchange(awaited_write_, std::nullopt);
  const absl::Status begun = executor_.WriteSnapshot(generation_, write.fence, write.order);
  if (!begun.ok()) RefuseWrite(write, begun);
}

void Agent::Handle(const ExecutorReply& reply) {
  const bool is_late = reply.generation != generation_;
  if (std::holds_alternative<ReleasedReply>(reply.body) || (is_late && !MustBeTold(reply))) return;
  if (IsOfShard(reply) && !keeper_.is_up()) {
    unsent_shard_ = reply;
    return;
  }
  v1::WorkerMessage message = std::visit([](const auto& body) { return ToMessage(body); }, reply.body);
  *message.mutable_fence() = filter_.FenceOf(reply.fence.job, reply.fence.epoch);
  if (message.has_shard_failed()) {
    spdlog::warn("worker {}: job {}, step {}: no shard {}: {}", options_.worker.value(), reply.fence.job.value(),
                 message.shard_failed().step(), message.shard_failed().file(), message.shard_failed().message());
  }
  if (message.has_failure()) {
    spdlog::warn("worker {}: job {}, step {}: {}", options_.worker.value(), reply.fence.job.value(),
                 message.failure().step(), message.failure().message());
  }
  keeper_.Send(std::move(message));
}

void Agent::BeginGeneration(const std::string& reason) {
  executor_.interrupts().Interrupt(generation_, absl::AbortedError(reason));
  ++generation_;
  awaited_write_.reset();
  unsent_shard_.reset();
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [](const ExecutorCommand& command) { return !MustBeDone(command); }),
                 waiting_.end());
}

void Agent::Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body) {
  waiting_.push_back({generation_, TransportFenceOf(fence), std::move(body)});
  SubmitNext();
}

// One command at a time: what an answer points to stays until the agent has made a message of it. Without a session
// nothing is begun but what must be done anyway.
void Agent::SubmitNext() {
  if (busy_ || waiting_.empty()) return;
  if (!keeper_.is_up() && !MustBeDone(waiting_.front())) return;
  busy_ = true;
  ExecutorCommand next = std::move(waiting_.front());
  waiting_.pop_front();
  if (const auto* commit = std::get_if<CommitCommand>(&next.body)) committing_ = Step(commit->commit.record().step());
  executor_.Submit(std::move(next));
}

void Agent::SetJob(bool holds_job) {
  SendLogLines();  // those of the job that ends
  holds_job_ = holds_job;
  assigned_ = false;
  last_commit_.Clear();
  if (options_.log != nullptr) options_.log->SetJob(holds_job);
}

void Agent::NoteCommit(const v1::CommitRecord& record) {
  if (record.step() > last_commit_.step()) last_commit_ = record;
}

void Agent::SendLogLines() {
  if (options_.log == nullptr || !holds_job_ || !keeper_.is_up()) return;
  while (true) {
    v1::WorkerMessage message;
    *message.mutable_log_lines() = options_.log->Take(kMaxLinesPerMessage);
    if (message.log_lines().lines().empty()) return;
    for (v1::LogLine& line : *message.mutable_log_lines()->mutable_lines()) {
      line.mutable_stages()->Assign(stages_.begin(), stages_.end());
    }
    *message.mutable_fence() = filter_.FenceOf(filter_.job(), filter_.epoch());
    keeper_.Send(std::move(message));
  }
}

v1::WorkerMessage Agent::MakeHello() const {
  v1::WorkerMessage message = ToHello(options_);
  *message.mutable_fence() = filter_.FenceOf(JobId(), Epoch());
  if (!holds_job_) return message;
  const ExecutorThread::Progress progress = executor_.progress();
  v1::HeldJob& held = *message.mutable_hello()->mutable_held();
  held.set_job(filter_.job().value());
  held.set_epoch(filter_.epoch().value());
  if (progress.job == filter_.job()) {
    held.set_applied_step(progress.applied_step.value());
    held.set_prepared_step(progress.prepared_step.value());
  }
  *held.mutable_last_commit() = last_commit_;
  return message;
}

v1::WorkerMessage Agent::MakeHeartbeat() const {
  v1::WorkerMessage message;
  *message.mutable_fence() = holds_job_ ? filter_.FenceOf(filter_.job(), filter_.epoch()) : filter_.FenceOf({}, {});
  message.mutable_heartbeat();
  if (std::optional<v1::RunState> run = executor_.run_state()) {
    *message.mutable_heartbeat()->mutable_run() = *std::move(run);
  }
  return message;
}

TransportFence Agent::TransportFenceOf(const v1::Fence& fence) const {
  return {.job = JobId(fence.job()), .epoch = Epoch(fence.epoch()), .incarnation = options_.incarnation};
}

void Agent::Refuse(const v1::Fence& fence, const absl::Status& status) {
  v1::WorkerMessage message = ToMessage(ExecutorFailure{status, Step(0), ""});
  *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
  keeper_.Send(std::move(message));
}

}  // namespace stagecoach
