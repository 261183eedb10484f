#include "tests/simulation/simulated_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/report_messages.h"
#include "worker/profile/layer_measurement.h"

namespace stagecoach::simulation {
namespace {

constexpr size_t kMaxUnsent = 64;

bool MustBeDone(const ExecutorCommand& command) {
  return std::holds_alternative<CommitCommand>(command.body) || std::holds_alternative<AbortCommand>(command.body) ||
         std::holds_alternative<ReleaseCommand>(command.body);
}

bool MustBeTold(const SimulatedExecutor::Reply& reply) {
  if (const auto* message = std::get_if<v1::WorkerMessage>(&reply.body)) return message->has_aborted();
  const auto* failure = std::get_if<ExecutorFailure>(&reply.body);
  if (failure == nullptr) return false;
  return reply.is_verdict || !(absl::IsAborted(failure->status) || absl::IsUnavailable(failure->status) ||
                               absl::IsCancelled(failure->status));
}

bool EndsTheWorker(const absl::Status& why) {
  return absl::IsAborted(why) || absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why);
}

AgentOptions OptionsOf(const std::string& name, uint64_t incarnation, const std::string& numerics_class) {
  AgentOptions options;
  options.worker = WorkerId(name);
  options.incarnation = Incarnation(incarnation);
  options.numerics_class = numerics_class;
  options.memory_bytes = uint64_t{1} << 30;
  options.max_threads = 2;
  options.session.welcome_timeout = absl::Seconds(2);
  options.session.orphan_timeout = absl::Minutes(1);
  options.leave_timeout = absl::Seconds(5);
  options.connect_timeout = absl::Seconds(3);
  return options;
}

}  // namespace

SimulatedWorker::SimulatedWorker(Surroundings surroundings, const std::string& name, uint64_t incarnation,
                                 const std::string& numerics_class)
    : to_(surroundings),
      host_(absl::StrCat(name, "/", incarnation)),
      options_(OptionsOf(name, incarnation, numerics_class)),
      process_(to_.world.scheduler),
      fence_laws_(to_.world, name, incarnation),
      rules_(options_.session, incarnation, process_.now()),
      filter_(options_.incarnation),
      executor_(
          to_, process_, host_, options_,
          [this](const SimulatedExecutor::Reply& reply) {
            HandleReply(reply);
            if (!reply.is_behind) MakeRoom();
            Pump();
          },
          [this] { MakeRoom(); }) {
  Pump();
}

void SimulatedWorker::Kill(bool silent) {
  process_.Kill();
  executor_.Die(silent);
  if (connection_ == nullptr) return;
  connection_->Break(silent);
  connection_.reset();
}

void SimulatedWorker::Exit(const absl::Status& why) {
  to_.world.Note("worker ", host_, " exits: ", why.ToString());
  process_.Kill();
  executor_.Die(/*silent=*/false);
  HangUp();
}

void SimulatedWorker::Leave() {
  process_.After(absl::ZeroDuration(), [this] {
    if (std::exchange(leaving_, true)) return;
    if (!rules_.is_up() && !holds_job_) return Exit(absl::OkStatus());
    rules_.OnLeaving(options_.leave_timeout, process_.now());
    SendLeaving();
    Pump();
  });
}

// What is due, first: a message that came while the process stood still does not act without a lease.
void SimulatedWorker::Pump() {
  while (process_.alive()) {
    const std::optional<SessionRules::Deed> deed = rules_.TakeDue(process_.now());
    if (!deed.has_value()) break;
    Do(*deed);
  }
  executor_.interrupts().SetLeaseEnd(rules_.lease_end());
  ScheduleDue();
}

void SimulatedWorker::ScheduleDue() {
  const absl::Duration due = rules_.NextDue();
  if (due == absl::InfiniteDuration() || due >= wakes_at_) return;
  wakes_at_ = due;
  process_.After(due - process_.now(), [this] {
    wakes_at_ = absl::InfiniteDuration();
    Pump();
  });
}

void SimulatedWorker::Do(SessionRules::Deed deed) {
  switch (deed) {
    case SessionRules::Deed::kDial:
      return Dial();
    case SessionRules::Deed::kHangUp:
      return HangUp();
    case SessionRules::Deed::kHeartbeat:
      return SendHeartbeat();
    case SessionRules::Deed::kQuiesce:
      return Quiesce();
    case SessionRules::Deed::kDropState:
      return DropJob("no session for too long");
    case SessionRules::Deed::kAbandon:
      return Exit(absl::OkStatus());
    case SessionRules::Deed::kGiveUp:
      return Exit(absl::UnavailableError("no session for too long"));
  }
}

void SimulatedWorker::Dial() {
  HangUp();
  was_answered_ = false;
  auto self = std::make_shared<std::weak_ptr<Connection>>();
  connection_ = to_.network.Dial(
      name(), host_,
      {.on_message =
           [this, self](v1::CoordinatorMessage message) {
             process_.After(absl::ZeroDuration(), [this, from = self->lock(), message = std::move(message)]() mutable {
               OnMessage(from, std::move(message));
             });
           },
       .on_end =
           [this, self](const absl::Status& why) {
             process_.After(absl::ZeroDuration(), [this, from = self->lock(), why] { OnSessionEnd(from, why); });
           }});
  *self = connection_;
  TrySend(MakeHello());
}

void SimulatedWorker::HangUp() {
  if (connection_ == nullptr) return;
  connection_->CloseByWorker(absl::UnavailableError("the worker has hung up"));
  connection_.reset();
}

bool SimulatedWorker::TrySend(const v1::WorkerMessage& message) {
  return connection_ != nullptr && connection_->SendToCoordinator(message).ok();
}

void SimulatedWorker::Send(v1::WorkerMessage message) {
  if (rules_.is_up() && unsent_.empty() && TrySend(message)) return;
  if (unsent_.size() == kMaxUnsent) unsent_.pop_front();
  unsent_.push_back(std::move(message));
}

void SimulatedWorker::SendHeartbeat() {
  v1::WorkerMessage message;
  *message.mutable_fence() = holds_job_ ? filter_.FenceOf(filter_.job(), filter_.epoch()) : filter_.FenceOf({}, {});
  message.mutable_heartbeat()->set_sequence(rules_.heartbeat_sequence());
  if (const std::optional<v1::RunState> run = executor_.run_state()) {
    *message.mutable_heartbeat()->mutable_run() = *run;
    if (to_.world.bug == PlantedBug::kBlameWaitingWorker)
      message.mutable_heartbeat()->mutable_run()->set_waiting(false);
  }
  TrySend(message);
}

v1::WorkerMessage SimulatedWorker::MakeHello() const {
  v1::WorkerMessage message = ToHello(options_);
  *message.mutable_fence() = filter_.FenceOf(JobId(), Epoch());
  if (!holds_job_) return message;
  v1::HeldJob& held = *message.mutable_hello()->mutable_held();
  held.set_job(filter_.job().value());
  held.set_epoch(filter_.epoch().value());
  if (executor_.progress().job == filter_.job()) {
    held.set_applied_step(executor_.progress().applied_step.value());
    held.set_prepared_step(executor_.progress().prepared_step.value());
  }
  *held.mutable_last_commit() = last_commit_;
  return message;
}

void SimulatedWorker::SendLeaving() {
  if (!leaving_ || !rules_.is_up()) return;
  v1::WorkerMessage message;
  message.mutable_leaving()->set_reason("SIGTERM");
  *message.mutable_fence() = filter_.FenceOf(JobId(), Epoch());
  Send(std::move(message));
}

void SimulatedWorker::OnSessionEnd(const std::shared_ptr<Connection>& from, const absl::Status& why) {
  Pump();
  if (!process_.alive() || from == nullptr || from != connection_) return;
  const bool was_up = rules_.is_up();
  rules_.OnSessionEnded(process_.now());
  HangUp();
  if (EndsTheWorker(why) && (!was_up || absl::IsAborted(why))) return Exit(why);
  if (leaving_ && !holds_job_) return Exit(absl::OkStatus());
  Pump();
}

void SimulatedWorker::OnMessage(const std::shared_ptr<Connection>& from, v1::CoordinatorMessage message) {
  Pump();
  if (!process_.alive() || from == nullptr || from != connection_) return;
  const v1::Fence sent = message.fence();
  if (to_.world.bug == PlantedBug::kAcceptOldEpoch && sent.job() == filter_.job().value()) {
    message.mutable_fence()->set_epoch(std::max(sent.epoch(), filter_.epoch().value()));
  }
  if (filter_.ReasonToDrop(message.fence()) == nullptr) {
    fence_laws_.OnActedOn(sent, message.message_case());
    Handle(message);
  }
  Pump();
}

void SimulatedWorker::Handle(v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kHeartbeatReply:
      was_answered_ = true;
      return rules_.OnHeartbeatReply(message.heartbeat_reply().sequence());
    case v1::CoordinatorMessage::kWelcome:
      return HandleWelcome(message.welcome());
    case v1::CoordinatorMessage::kDismiss:
      return Exit(absl::OkStatus());
    case v1::CoordinatorMessage::kAssignStages:
      return HandleAssign(message.fence(), *message.mutable_assign_stages());
    case v1::CoordinatorMessage::kAbort:
      return HandleAbort(message.fence(), message.abort());
    case v1::CoordinatorMessage::kRelease:
      return HandleRelease(message.fence());
    case v1::CoordinatorMessage::kMeasureLayers:
      return HandleMeasure(message.fence(), *message.mutable_measure_layers());
    default:
      return HandleOrder(message);
  }
}

void SimulatedWorker::HandleWelcome(const v1::Welcome& welcome) {
  if (rules_.is_up()) return;
  rules_.OnWelcome(welcome);
  if (!rules_.is_up()) return;
  while (!unsent_.empty() && TrySend(unsent_.front())) unsent_.pop_front();
  executor_.interrupts().SetLeaseEnd(rules_.lease_end());
  EndMeasurement();
  SendLeaving();
  SubmitNext();
}

void SimulatedWorker::HandleAssign(const v1::Fence& fence, v1::AssignStages& assignment) {
  const JobId job(fence.job());
  const Epoch epoch(fence.epoch());
  if (holds_job_ && job != filter_.job()) {
    filter_.NoteEnd(job, epoch);  // an earlier one that is late is not begun either
    return Refuse(fence, absl::FailedPreconditionError("the worker still holds another job"));
  }
  if (job == filter_.job() && epoch == filter_.epoch()) {
    if (!assigned_) return;
    return Refuse(fence, absl::FailedPreconditionError("stages of this epoch are assigned already"));
  }
  BeginGeneration("a new epoch begins");
  filter_.Adopt(job, epoch);
  if (!holds_job_) SetJob(true);
  assigned_ = true;
  NoteCommit(assignment.last_commit());
  Submit(fence, PrepareCommand{std::move(assignment)});
}

void SimulatedWorker::HandleAbort(const v1::Fence& fence, const v1::Abort& abort) {
  if (!holds_job_ || fence.job() != filter_.job().value()) {
    v1::WorkerMessage message = ToMessage(AbortedReply{});
    *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
    NoteEndOfOtherJob(fence);
    return Send(std::move(message));
  }
  BeginGeneration(abort.reason());
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  assigned_ = false;
  NoteCommit(abort.last_commit());
  Submit(fence, AbortCommand{abort.last_commit()});
}

void SimulatedWorker::HandleRelease(const v1::Fence& fence) {
  if (fence.job().empty()) return EndMeasurement();
  if (!holds_job_ || fence.job() != filter_.job().value()) return NoteEndOfOtherJob(fence);
  BeginGeneration("the job was released");
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  SetJob(false);
  Submit(fence, ReleaseCommand{});
}

void SimulatedWorker::HandleMeasure(const v1::Fence& fence, v1::MeasureLayers& order) {
  if (holds_job_) {
    v1::WorkerMessage message = ToMessage(MeasuredReply{NothingMeasured(order, "it holds a job")});
    *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
    return Send(std::move(message));
  }
  BeginGeneration("others are to be measured");
  Submit(fence, MeasureCommand{std::move(order)});
}

void SimulatedWorker::EndMeasurement() {
  if (!holds_job_) BeginGeneration("what was measured is not needed any more");
}

void SimulatedWorker::NoteEndOfOtherJob(const v1::Fence& fence) {
  const JobId job(fence.job());
  const Epoch epoch(fence.epoch());
  if (holds_job_) {
    filter_.NoteEnd(job, epoch);
  } else {
    filter_.Adopt(job, epoch);
  }
}

void SimulatedWorker::HandleOrder(v1::CoordinatorMessage& message) {
  const v1::Fence& fence = message.fence();
  if (!holds_job_ || fence.job() != filter_.job().value() || fence.epoch() != filter_.epoch().value() ||
      (!assigned_ && !message.has_commit_step())) {
    return Refuse(fence, absl::FailedPreconditionError("no stages of this job and epoch are assigned here"));
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
      return Submit(fence, WriteShardCommand{std::move(*message.mutable_write_checkpoint())});
    default:
      return Refuse(fence, absl::UnimplementedError("a message of a kind that this worker does not know"));
  }
}

void SimulatedWorker::HandleReply(const SimulatedExecutor::Reply& reply) {
  const bool is_late = reply.generation != generation_;
  if (std::holds_alternative<ReleasedReply>(reply.body) || (is_late && !MustBeTold(reply))) return;
  const auto* answer = std::get_if<v1::WorkerMessage>(&reply.body);
  if (answer != nullptr && answer->has_layers_measured() && !rules_.is_up()) return;
  const auto* failure = std::get_if<ExecutorFailure>(&reply.body);
  v1::WorkerMessage message = failure != nullptr ? ToMessage(*failure) : std::get<v1::WorkerMessage>(reply.body);
  *message.mutable_fence() = filter_.FenceOf(reply.fence.job, reply.fence.epoch);
  if (failure != nullptr) to_.world.Note("worker ", host_, " fails: ", failure->status.ToString());
  Send(std::move(message));
}

// Parameters and prepared gradients stay.
void SimulatedWorker::Quiesce() {
  if (!holds_job_) return;
  to_.world.Note("worker ", host_, " is without a lease");
  executor_.interrupts().Interrupt(generation_, absl::AbortedError("the worker's lease was over"));
}

void SimulatedWorker::DropJob(const std::string& reason) {
  if (!holds_job_) return;
  BeginGeneration(reason);
  SetJob(false);
  Submit(filter_.FenceOf(filter_.job(), filter_.epoch()), ReleaseCommand{});
}

void SimulatedWorker::BeginGeneration(const std::string& reason) {
  executor_.interrupts().Interrupt(generation_, absl::AbortedError(reason));
  ++generation_;
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [](const ExecutorCommand& command) { return !MustBeDone(command); }),
                 waiting_.end());
}

void SimulatedWorker::Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body) {
  waiting_.push_back({generation_,
                      {.job = JobId(fence.job()), .epoch = Epoch(fence.epoch()), .incarnation = options_.incarnation},
                      std::move(body)});
  SubmitNext();
}

void SimulatedWorker::SubmitNext() {
  if (busy_ || waiting_.empty()) return;
  if (!rules_.is_up() && !MustBeDone(waiting_.front())) return;
  busy_ = true;
  ExecutorCommand next = std::move(waiting_.front());
  waiting_.pop_front();
  executor_.Submit(std::move(next));
}

void SimulatedWorker::MakeRoom() {
  busy_ = false;
  SubmitNext();
}

void SimulatedWorker::SetJob(bool holds_job) {
  holds_job_ = holds_job;
  assigned_ = false;
  last_commit_.Clear();
}

void SimulatedWorker::NoteCommit(const v1::CommitRecord& record) {
  if (record.step() > last_commit_.step()) last_commit_ = record;
}

void SimulatedWorker::Refuse(const v1::Fence& fence, const absl::Status& status) {
  to_.world.Note("worker ", host_, " refuses: ", status.message());
  v1::WorkerMessage message = ToMessage(ExecutorFailure{status, Step(0), ""});
  *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
  Send(std::move(message));
}

}  // namespace stagecoach::simulation
