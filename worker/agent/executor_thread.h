#ifndef STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_
#define STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/message_queue.h"
#include "common/mutex.h"
#include "common/named_thread.h"
#include "worker/agent/executor_messages.h"
#include "worker/agent/held_state.h"
#include "worker/agent/worker_epoch.h"

namespace stagecoach {

// The thread that owns a worker's device and all that is on it. Takes one command at a time; reports, endpoints and
// states that an answer points to stay as they are until the next command. Submit and TakeReply are the agent's;
// Interrupt is any thread's.
class ExecutorThread {
 public:
  // `on_reply` is called by the thread when the answer to a command may be taken.
  ExecutorThread(const AgentOptions& options, std::function<void()> on_reply);
  ~ExecutorThread();  // interrupts, and waits for the thread

  // Only when the last answer has been taken.
  void Submit(ExecutorCommand command);
  ExecutorReply TakeReply();

  // Commands of this generation or an older one that prepare, connect or run return within 100 ms, or fail when they
  // come. Commits go on: applying cannot be cancelled.
  void Interrupt(uint64_t generation, const absl::Status& reason);

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
  absl::Status CheckNotInterrupted(uint64_t generation);
  void SetEpoch(uint64_t generation, std::unique_ptr<WorkerEpoch> epoch);

  const AgentOptions& options_;
  const std::function<void()> on_reply_;
  MessageQueue<ExecutorCommand> commands_{1};
  ExecutorReply reply_;  // handed over by on_reply_ and Submit

  // Of the thread. The epoch uses the state's device.
  HeldState held_;
  std::unique_ptr<WorkerEpoch> epoch_;

  Mutex mutex_;
  uint64_t interrupted_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status interrupt_reason_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerEpoch* interruptible_ ABSL_GUARDED_BY(mutex_) = nullptr;

  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_
