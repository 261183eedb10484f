#ifndef STAGECOACH_WORKER_AGENT_AGENT_H_
#define STAGECOACH_WORKER_AGENT_AGENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/executor_thread.h"
#include "worker/agent/fence_filter.h"
#include "worker/agent/inbox.h"
#include "worker/agent/session_keeper.h"
#include "worker/session.h"

namespace stagecoach {

// What a worker knows, for people and tests.
struct AgentStatus {
  uint64_t dropped_messages = 0;  // older than what the worker knows
  v1::CommitRecord last_commit;   // the newest seen of the job held
  uint64_t num_sessions = 0;      // that it was welcomed to
  bool in_session = false;        // welcomed
  bool holds_job = false;
};

// A worker's life, from its start to its end, over any number of sessions and jobs: keeps itself in session with the
// coordinator (SessionKeeper) and does what the coordinator's messages say (worker.proto), in their order and one at a
// time. Four threads: one reads the session into the inbox; the agent's own is a state machine over the inbox and the
// clock, and never waits for a device, a peer or a file; the executor's has the device and answers into the inbox; one
// writes snapshots, beside what the executor does. Only Abort, Release and a new AssignStages or MeasureLayers overtake
// what is under way. Without a session what is under way goes on and
// nothing else is started; without a lease it is interrupted. Public methods: any thread.
class Agent {
 public:
  static std::unique_ptr<Agent> Start(AgentOptions options, SessionDialer dialer);
  ~Agent();  // at once: interrupts what runs, and ends the session

  // Asks the coordinator to be dismissed, and ends when it is, or after options.leave_timeout; until then the worker
  // does what it is told. `reason` is for people.
  void Leave(const std::string& reason);

  // None: the worker is still there after `timeout`. Otherwise why it has ended:
  //   OK                   it was dismissed, or it has been leaving for long enough
  //   ABORTED              a newer process of this worker's name has taken its place
  //   FAILED_PRECONDITION  the coordinator refuses this worker's protocol version
  //   INVALID_ARGUMENT     it refuses what this worker says about itself
  //   UNAVAILABLE          no session for longer than options.session.dial_timeout
  std::optional<absl::Status> Wait(absl::Duration timeout);
  AgentStatus status() const;

 private:
  // To be written from a snapshot whose commit may still be under way.
  struct AwaitedWrite {
    TransportFence fence;
    v1::WriteCheckpoint order;
  };

  Agent(AgentOptions options, SessionDialer dialer);
  void Loop();
  void End(const absl::Status& why);

  void Do(SessionRules::Deed deed);
  void Quiesce();
  void DropJob(const std::string& reason);
  void BeginLeaving(const std::string& reason);
  void SendLeaving();

  void Handle(const InboxItem& item);
  void Handle(const FromSession& item);
  void HandleSessionEnd(const absl::Status& why);
  void Handle(v1::CoordinatorMessage message);
  void HandleAssign(const v1::Fence& fence, v1::AssignStages& assignment);
  void HandleAbort(const v1::Fence& fence, const v1::Abort& abort);
  void HandleRelease(const v1::Fence& fence);
  void HandleReadTrace(const v1::ReadTrace& order);
  void HandleMeasure(const v1::Fence& fence, v1::MeasureLayers& order);
  void EndMeasurement();
  // That the worker does not hold: what was under way of it may still come.
  void NoteEndOfOtherJob(const v1::Fence& fence);
  // Of the epoch assigned; Commit of the job held.
  void HandleOrder(v1::CoordinatorMessage& message);
  void HandleWrite(const v1::Fence& fence, v1::WriteCheckpoint& order);
  void RefuseWrite(const AwaitedWrite& write, const absl::Status& status);
  void BeginAwaitedWrite();
  void Handle(const ExecutorReply& reply);
  void HandleWelcome(const v1::Welcome& welcome);
  void HandleDismiss();
  void Drop(const v1::Fence& fence, const char* reason);
  void Refuse(const v1::Fence& fence, const absl::Status& status);

  // Ends what was asked before: it is interrupted, taken off the queue, or its answer is not sent. Commits stay, and a
  // failure that has another cause is told.
  void BeginGeneration(const std::string& reason);
  void Submit(const v1::Fence& fence, decltype(ExecutorCommand::body) body);
  void SubmitNext();
  void SetJob(bool holds_job);
  void NoteCommit(const v1::CommitRecord& record);
  void SendLogLines();

  v1::WorkerMessage MakeHello() const;
  v1::WorkerMessage MakeHeartbeat() const;
  TransportFence TransportFenceOf(const v1::Fence& fence) const;

  const AgentOptions options_;
  Inbox inbox_;

  mutable Mutex mutex_;
  CondVar ended_changed_;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  AgentStatus status_ ABSL_GUARDED_BY(mutex_);

  // Of the agent's thread.
  FenceFilter filter_;
  bool holds_job_ = false;        // filter_.job(), from AssignStages to Release
  bool assigned_ = false;         // stages in filter_.epoch(), from AssignStages to Abort
  std::vector<uint32_t> stages_;  // of the last AssignStages
  v1::CommitRecord last_commit_;  // the newest seen of the job held
  uint64_t generation_ = 0;       // see ExecutorCommand
  std::deque<ExecutorCommand> waiting_;
  bool busy_ = false;  // the executor has a command
  Step committing_;    // ... to commit this step
  // Of generation_.
  std::optional<AwaitedWrite> awaited_write_;
  std::optional<ExecutorReply> unsent_shard_;  // what became of one, for the next session
  std::optional<std::string> leaving_;
  bool stopped_ = false;
  uint64_t num_welcomes_ = 0;

  ExecutorThread executor_;
  SessionKeeper keeper_;
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_AGENT_H_
