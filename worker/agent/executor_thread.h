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
#include "worker/checkpoint/snapshot_writer.h"
#include "worker/executor/trace_ring.h"

namespace stagecoach {

// The thread that owns a worker's device and all that is on it. Takes one command at a time; reports, endpoints and
// states that an answer points to stay as they are until the next command. Snapshots are written by a thread of their
// own, beside the commands. Submit, TakeReply and WriteSnapshot are the agent's; the rest is any thread's.
class ExecutorThread {
 public:
  // Called by the thread when the answer to a command may be taken; with what became of a snapshot's shard.
  struct Tells {
    std::function<void()> reply;
    std::function<void(ExecutorReply)> shard;
  };
  ExecutorThread(const AgentOptions& options, Tells tells);
  ~ExecutorThread();  // interrupts, and waits for the thread

  // Only when the last answer has been taken.
  void Submit(ExecutorCommand command);
  ExecutorReply TakeReply();

  // Begins to write the snapshot that the commit of the order's step has taken, which must have been answered: tells of
  // a ShardReply or a ShardFailure, once. Errors of SnapshotWriter::Write.
  absl::Status WriteSnapshot(uint64_t generation, const TransportFence& fence, const v1::WriteCheckpoint& order);

  // Commands of the generations interrupted that prepare, connect, run, measure or write return within 100 ms (building
  // a state, measuring and writing a shard: after the tensor, the call or the piece under way), or fail when they come.
  // Commits go on: applying cannot be cancelled.
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
  // Of the job that was prepared last, also after its release; for any thread to read.
  const TraceRing& trace() const { return trace_; }

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
  ReplyBody Execute(const ExecutorCommand& command, MeasureCommand& measure);

  absl::StatusOr<v1::LayersMeasured> Measure(const ExecutorCommand& command, const v1::MeasureLayers& order);
  absl::StatusOr<PreparedReply> Prepare(const ExecutorCommand& command, PrepareCommand& prepare);
  absl::StatusOr<AppliedReply> Commit(const v1::CommitStep& commit);
  absl::Status AddDigests(AppliedReply& reply);
  void TakeSnapshot(const AppliedReply& applied);
  absl::StatusOr<v1::ShardWritten> WriteShard(const ExecutorCommand& command, const v1::WriteCheckpoint& order);
  // Ends what is being written and drops the snapshot. DEADLINE_EXCEEDED: the disk does not let go of it. The reason of
  // an interrupt of `generation` that comes meanwhile.
  absl::Status StopSnapshots(uint64_t generation);
  void ReleaseState();
  absl::Status CheckMayRun(const ExecutorCommand& command, const v1::RunStep& order) const;
  void DestroyEpoch();

  const AgentOptions& options_;
  const Tells tells_;
  MessageQueue<ExecutorCommand> commands_{1};
  ExecutorReply reply_;  // handed over by on_reply_ and Submit

  Interrupts interrupts_;
  TraceRing trace_;

  // Of the thread. The snapshot is of the state; the epoch uses the state's device.
  HeldState held_;
  SnapshotWriter snapshots_;
  std::unique_ptr<WorkerEpoch> epoch_;
  std::unique_ptr<Interrupts::Registration> epoch_interrupt_;

  mutable Mutex mutex_;
  const WorkerEpoch* visible_epoch_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Progress progress_ ABSL_GUARDED_BY(mutex_);

  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_EXECUTOR_THREAD_H_
