#ifndef STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_
#define STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/message_queue.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/executor_messages.h"
#include "worker/agent/held_state.h"
#include "worker/agent/interrupts.h"
#include "worker/agent/worker_epoch.h"

namespace stagecoach {

// The thread that owns a worker's device and all that is on it. Takes one command at a time; reports, endpoints and
// states that an answer points to stay as they are until the next command. Submit and TakeReply are the agent's; the
// rest is any thread's.
class ExecutorThread {
 public:
  // `on_reply` is called by the thread when the answer to a command may be taken.
  ExecutorThread(const AgentOptions& options, std::function<void()> on_reply);
  ~ExecutorThread();  // interrupts, and waits for the thread

  // Only when the last answer has been taken.
  void Submit(ExecutorCommand command);
  ExecutorReply TakeReply();

  // Commands of the generations interrupted that prepare, connect, run or write return within 100 ms (building a state
  // and writing a shard: after the tensor under way), or fail when they come. Commits go on: applying cannot be
  // cancelled.
  Interrupts& interrupts() { return interrupts_; }

  // Where the program is that runs; none: none runs.
  std::optional<v1::RunState> run_state() const;
  // How far the state was at the end of the last command, and of which job that was: of another one nothing is held.
  struct Progress {
    JobId job;
    Step applied_step;
    Step prepared_step;
  };
  Progress progress() const;

 private:
  using ReplyBody = decltype(ExecutorReply::body);

  void Loop();
  ReplyBody Execute(const ExecutorCommand& command, ReleaseCommand& release);
  ReplyBody Execute(const ExecutorCommand& command, PrepareCommand& prepare);
  ReplyBody Execute(const ExecutorCommand& command, ConnectCommand& connect);
  ReplyBody Execute(const ExecutorCommand& command, RunCommand& run);
  ReplyBody Execute(const ExecutorCommand& command, CommitCommand& commit);
  ReplyBody Execute(const ExecutorCommand& command, WriteShardCommand& write);
  ReplyBody Execute(const ExecutorCommand& command, AbortCommand& abort);

  absl::StatusOr<PreparedReply> Prepare(const ExecutorCommand& command, PrepareCommand& prepare);
  absl::StatusOr<AppliedReply> Commit(const v1::CommitStep& commit);
  absl::Status CheckMayRun(const ExecutorCommand& command, const v1::RunStep& order) const;
  void DestroyEpoch();

  const AgentOptions& options_;
  const std::function<void()> on_reply_;
  MessageQueue<ExecutorCommand> commands_{1};
  ExecutorReply reply_;  // handed over by on_reply_ and Submit

  Interrupts interrupts_;

  // Of the thread. The epoch uses the state's device.
  HeldState held_;
  std::unique_ptr<WorkerEpoch> epoch_;
  std::unique_ptr<Interrupts::Registration> epoch_interrupt_;

  mutable Mutex mutex_;
  const WorkerEpoch* visible_epoch_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Progress progress_ ABSL_GUARDED_BY(mutex_);

  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_
