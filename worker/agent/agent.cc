#include "worker/agent/agent.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/agent/report_messages.h"

namespace stagecoach {
namespace {

// A coordinator has a handful of messages under way.
constexpr size_t kInboxCapacity = 1024;

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

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(AgentOptions options, std::unique_ptr<Session> session) {
  v1::WorkerMessage message;
  message.mutable_fence()->set_incarnation(options.incarnation.value());
  v1::Hello& hello = *message.mutable_hello();
  hello.set_worker(options.worker.value());
  hello.set_numerics_class(options.numerics_class);
  hello.set_memory_bytes(options.memory_bytes);
  hello.set_max_threads(options.max_threads);
  STAGECOACH_RETURN_IF_ERROR(session->Send(std::move(message)));
  return absl::WrapUnique(new Agent(std::move(options), std::move(session)));
}

Agent::Agent(AgentOptions options, std::unique_ptr<Session> session)
    : options_(std::move(options)),
      session_(std::move(session)),
      inbox_(kInboxCapacity),
      filter_(options_.incarnation),
      executor_(options_, [this] { NotifyReply(); }),
      agent_thread_("agent", [this] { Loop(); }),
      reader_thread_("session", [this] { ReadSession(); }) {}

Agent::~Agent() {
  session_->Close();
  reader_thread_.Join();
  agent_thread_.Join();
}

absl::Status Agent::Wait() {
  MutexLock lock(mutex_);
  while (!ended_.has_value()) ended_changed_.Wait(mutex_);
  return *ended_;
}

AgentStatus Agent::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void Agent::ReadSession() {
  while (true) {
    absl::StatusOr<v1::CoordinatorMessage> message = session_->Receive(absl::InfiniteDuration());
    if (message.status().code() == absl::StatusCode::kDeadlineExceeded) continue;
    absl::Status status = message.status();
    if (status.ok()) status = inbox_.Push(*std::move(message));
    if (status.ok()) continue;
    session_->Close();
    Notify(SessionEnded{status});
    return;
  }
}

// What ends or answers must arrive even when a flood has filled the inbox; the agent's thread empties it.
void Agent::Notify(SessionEnded ended) {
  while (inbox_.Push(ended).code() == absl::StatusCode::kResourceExhausted) std::this_thread::yield();
}

void Agent::NotifyReply() {
  while (inbox_.Push(ReplyIsThere{}).code() == absl::StatusCode::kResourceExhausted) std::this_thread::yield();
}

void Agent::Loop() {
  while (true) {
    auto item = inbox_.Pop(absl::InfiniteDuration());
    if (!item.ok()) continue;
    if (auto* message = std::get_if<v1::CoordinatorMessage>(&*item)) {
      Handle(*message);
    } else if (std::holds_alternative<ReplyIsThere>(*item)) {
      const ExecutorReply reply = executor_.TakeReply();
      Handle(reply);
      busy_ = false;
      SubmitNext();
    } else {
      executor_.Interrupt(generation_, absl::AbortedError("the session has ended"));
      inbox_.Close();
      MutexLock lock(mutex_);
      ended_ = std::get<SessionEnded>(*item).why;
      ended_changed_.NotifyAll();
      return;
    }
  }
}

void Agent::Handle(v1::CoordinatorMessage& message) {
  if (const char* reason = filter_.ReasonToDrop(message.fence()); reason != nullptr) {
    return Drop(message.fence(), reason);
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return;
    case v1::CoordinatorMessage::kAssignStages:
      return HandleAssign(message.fence(), *message.mutable_assign_stages());
    case v1::CoordinatorMessage::kAbort:
      return HandleAbort(message.fence(), message.abort());
    case v1::CoordinatorMessage::kRelease:
      return HandleRelease(message.fence());
    default:
      return HandleOrder(message);
  }
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
  holds_job_ = assigned_ = true;
  NoteCommit(assignment.last_commit());
  Submit(fence, PrepareCommand{std::move(assignment)});
}

void Agent::HandleAbort(const v1::Fence& fence, const v1::Abort& abort) {
  if (!holds_job_ || fence.job() != filter_.job().value()) {
    v1::WorkerMessage message = ToMessage(AbortedReply{});
    *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
    if (!holds_job_) filter_.Adopt(JobId(fence.job()), Epoch(fence.epoch()));
    return Send(std::move(message));
  }
  BeginGeneration(abort.reason());
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  assigned_ = false;
  NoteCommit(abort.last_commit());
  Submit(fence, AbortCommand{abort.last_commit()});
}

void Agent::HandleRelease(const v1::Fence& fence) {
  if (holds_job_ && fence.job() != filter_.job().value()) return;
  if (!holds_job_) return filter_.Adopt(JobId(fence.job()), Epoch(fence.epoch()));
  BeginGeneration("the job was released");
  filter_.Adopt(filter_.job(), Epoch(fence.epoch()));
  holds_job_ = assigned_ = false;
  Submit(fence, ReleaseCommand{});
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
      return Submit(fence, WriteShardCommand{std::move(*message.mutable_write_checkpoint())});
    default:
      return Refuse(fence, absl::UnimplementedError("a message of a kind that this worker does not know"));
  }
}

void Agent::Handle(const ExecutorReply& reply) {
  const bool is_late = reply.generation != generation_;
  if (std::holds_alternative<ReleasedReply>(reply.body) || (is_late && !MustBeTold(reply))) return;
  v1::WorkerMessage message = std::visit([](const auto& body) { return ToMessage(body); }, reply.body);
  *message.mutable_fence() = filter_.FenceOf(reply.fence.job, reply.fence.epoch);
  Send(std::move(message));
}

void Agent::BeginGeneration(const std::string& reason) {
  executor_.Interrupt(generation_, absl::AbortedError(reason));
  ++generation_;
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                [](const ExecutorCommand& command) { return !MustBeDone(command); }),
                 waiting_.end());
}

void Agent::Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body) {
  waiting_.push_back({generation_, TransportFenceOf(fence), std::move(body)});
  SubmitNext();
}

// One command at a time: what an answer points to stays until the agent has made a message of it.
void Agent::SubmitNext() {
  if (busy_ || waiting_.empty()) return;
  busy_ = true;
  ExecutorCommand next = std::move(waiting_.front());
  waiting_.pop_front();
  executor_.Submit(std::move(next));
}

void Agent::NoteCommit(const v1::CommitRecord& record) {
  MutexLock lock(mutex_);
  if (record.step() > status_.last_commit.step()) status_.last_commit = record;
}

TransportFence Agent::TransportFenceOf(const v1::Fence& fence) const {
  return {.job = JobId(fence.job()), .epoch = Epoch(fence.epoch()), .incarnation = options_.incarnation};
}

void Agent::Send(v1::WorkerMessage message) {
  const absl::Status sent = session_->Send(std::move(message));
  if (sent.ok()) return;
  spdlog::warn("worker {}: the session has ended: {}", options_.worker.value(), sent.ToString());
  session_->Close();
}

void Agent::Refuse(const v1::Fence& fence, const absl::Status& status) {
  v1::WorkerMessage message = ToMessage(ExecutorFailure{status, Step(0), ""});
  *message.mutable_fence() = filter_.FenceOf(JobId(fence.job()), Epoch(fence.epoch()));
  Send(std::move(message));
}

}  // namespace stagecoach
