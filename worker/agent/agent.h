#ifndef STAGECOACH_WORKER_AGENT_AGENT_H_
#define STAGECOACH_WORKER_AGENT_AGENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/message_queue.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/executor_thread.h"
#include "worker/agent/fence_filter.h"
#include "worker/session.h"

namespace stagecoach {

// What a worker knows, for people and tests.
struct AgentStatus {
  uint64_t dropped_messages = 0;  // older than what the worker knows
  v1::CommitRecord last_commit;   // the newest seen
};

// A worker's life: says hello, then does what the coordinator's messages say (worker.proto), in their order and one at
// a time, until the session ends. Three threads: one reads the session into the inbox; the agent's own is a state
// machine over the inbox; the executor's has the device and answers into the inbox. Only Abort, Release and a new
// AssignStages overtake what is under way. An Agent has one session: when that breaks, what runs is aborted. Wait and
// status: any thread.
class Agent {
 public:
  // Sends Hello. Errors of Session::Send.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(AgentOptions options, std::unique_ptr<Session> session);
  ~Agent();  // closes the session, aborts what runs

  // Until the session has ended; why it has.
  absl::Status Wait();
  AgentStatus status() const;

 private:
  struct ReplyIsThere {};
  struct SessionEnded {
    absl::Status why;
  };
  using Inbox = MessageQueue<std::variant<ReplyIsThere, SessionEnded, v1::CoordinatorMessage>>;

  Agent(AgentOptions options, std::unique_ptr<Session> session);
  void ReadSession();
  void Notify(SessionEnded ended);
  void NotifyReply();
  void Loop();

  void Handle(v1::CoordinatorMessage& message);
  void Drop(const v1::Fence& fence, const char* reason);
  void HandleAssign(const v1::Fence& fence, v1::AssignStages& assignment);
  void HandleAbort(const v1::Fence& fence, const v1::Abort& abort);
  void HandleRelease(const v1::Fence& fence);
  // Of the epoch assigned; Commit of the job held.
  void HandleOrder(v1::CoordinatorMessage& message);
  void Handle(const ExecutorReply& reply);

  // Ends what was asked before: it is interrupted, taken off the queue, or its answer is not sent. Commits stay, and a
  // failure that has another cause is told.
  void BeginGeneration(const std::string& reason);
  void Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body);
  void SubmitNext();
  void NoteCommit(const v1::CommitRecord& record);
  TransportFence TransportFenceOf(const v1::Fence& fence) const;
  void Send(v1::WorkerMessage message);
  void Refuse(const v1::Fence& fence, const absl::Status& status);

  const AgentOptions options_;
  const std::unique_ptr<Session> session_;
  Inbox inbox_;

  mutable Mutex mutex_;
  CondVar ended_changed_;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  AgentStatus status_ ABSL_GUARDED_BY(mutex_);

  // Of the agent's thread.
  FenceFilter filter_;
  bool holds_job_ = false;   // filter_.job(), from AssignStages to Release
  bool assigned_ = false;    // stages in filter_.epoch(), from AssignStages to Abort
  uint64_t generation_ = 0;  // see ExecutorCommand
  std::deque<ExecutorCommand> waiting_;
  bool busy_ = false;  // the executor has a command

  ExecutorThread executor_;
  NamedThread agent_thread_, reader_thread_;  // last: they use all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_AGENT_H_
