#ifndef STAGECOACH_COORDINATOR_COORDINATOR_H_
#define STAGECOACH_COORDINATOR_COORDINATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "common/loop_beat.h"
#include "common/named_thread.h"
#include "coordinator/effect_runner.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/fleet/session_id.h"
#include "coordinator/followers.h"
#include "coordinator/input_queue.h"
#include "coordinator/jobs/input.h"
#include "coordinator/journal/store.h"
#include "coordinator/journal_compaction.h"
#include "coordinator/state.h"
#include "coordinator/state_observer.h"
#include "coordinator/task_thread.h"
#include "stagecoach/v1/coordinator.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The control plane: one thread takes inputs from one queue, decides (Decide), and does what was decided
// (EffectRunner). Planning and files have threads of their own. All methods are thread-safe and none needs a lock of
// the caller's. Sinks and followers are called by the coordinator's thread: they must not block, and not call back what
// waits for it (FAILED_PRECONDITION). Methods that return what was decided wait for it.
//
// Any method: UNAVAILABLE when the coordinator was stopped, has not answered for a long time, or could not write its
// journal, which ends everything and is not recovered from. RESOURCE_EXHAUSTED: its queue is full.
class Coordinator {
 public:
  struct Options {
    Store& store;                                        // outlives the coordinator
    const Clock& clock;                                  // likewise
    FileSystem& files;                                   // likewise
    Planner planner;                                     // PlanJob; called by the planning thread
    std::function<absl::Time()> wall_clock = absl::Now;  // for people only
    FleetOptions fleet = {};
    StateObserver* observer = nullptr;  // null: none; outlives the coordinator
    LoopBeat* beat = nullptr;           // likewise
    JournalCompaction::Limits compaction = {};
    size_t queue_capacity = 1 << 16;
    absl::Duration request_timeout = absl::Seconds(30);
    // The journal could not be written: the process may end. By the coordinator's thread; must not call Stop.
    std::function<void(const absl::Status&)> on_halt = [](const absl::Status&) {};
  };
  // Locks the journal, replays it, takes the next term. FAILED_PRECONDITION: another coordinator has it. DATA_LOSS:
  // entries contradict each other or do not parse.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(Options options);
  ~Coordinator() { Stop(); }

  CoordinatorTerm term() const { return term_; }

  // A new session, which begins with Welcome; that may be sent before this returns. It takes the place of another of
  // the same worker's, which ends with ABORTED. FAILED_PRECONDITION: another protocol version. INVALID_ARGUMENT: no
  // name or no incarnation.
  absl::StatusOr<SessionId> ConnectWorker(const v1::Hello& hello, Incarnation incarnation, WorkerSink sink);
  // What is said over a session that has ended is dropped. `handled` is called by the coordinator's thread when the
  // message no longer waits, for callers that bound how many do; not when the coordinator has stopped before.
  absl::Status Deliver(
      SessionId session, v1::WorkerMessage message, std::function<void()> handled = [] {});
  // The worker, or the network, has ended it; its sink is not called any more once this was handled.
  absl::Status EndSession(SessionId session, const absl::Status& why);

  // Waits until the job is in the journal. ALREADY_EXISTS, INVALID_ARGUMENT.
  absl::StatusOr<JobId> SubmitJob(const v1::SubmitJobRequest& request);
  // Wait for the decision, not for what it leads to. NOT_FOUND, FAILED_PRECONDITION: see coordinator.proto.
  absl::Status CancelJob(const JobId& job);
  absl::Status PauseJob(const JobId& job);
  absl::Status ResumeJob(const JobId& job);
  absl::Status CreateCheckpoint(const JobId& job);
  absl::StatusOr<v1::Job> DescribeJob(const JobId& job);  // NOT_FOUND
  absl::StatusOr<v1::ListJobsResponse> ListJobs();
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();

  // NOT_FOUND. The follower may be called before these return.
  absl::StatusOr<FollowerId> FollowJob(const v1::FollowJobRequest& request, JobFollower follower);
  absl::StatusOr<FollowerId> FollowLogs(const v1::FollowLogsRequest& request, LogFollower follower);
  // It is forgotten: on_end is not called. A call that is under way may still be.
  void Unfollow(FollowerId follower);

  // The number of the reading, once workers are asked: see coordinator.proto for the errors, and for what the reader is
  // then given. It may be called before this returns.
  absl::StatusOr<uint64_t> ReadTrace(const v1::ReadTraceRequest& request, TraceReader reader);
  // The reader is not called any more, but for a call that is under way.
  void StopReading(uint64_t reading);

  // Ends the threads, all sessions and followers (UNAVAILABLE); none is called afterwards. Idempotent; not by the
  // coordinator's thread.
  void Stop();

 private:
  explicit Coordinator(Options options);

  absl::Status Replay();
  absl::Status Compact(JournalCompaction& compaction);
  void Loop();
  void Handle(Input input);
  void Halt(const absl::Status& why);
  // Runs `ask` on the coordinator's thread and waits for what it returns.
  template <typename T>
  absl::StatusOr<T> Ask(std::function<absl::StatusOr<T>()> ask);
  absl::StatusOr<JobId> Request(std::function<Input(uint64_t)> make_input);
  absl::StatusOr<const JobRecord*> Find(const JobId& job) const;

  const Options options_;
  InputQueue queue_;
  CoordinatorTerm term_;  // constant once Create has returned
  std::atomic<uint64_t> last_session_ = 0;
  std::atomic<uint64_t> last_follower_ = 0;
  std::atomic<uint64_t> last_reading_ = 0;

  // Of the coordinator's thread, once it runs.
  State state_;
  absl::Status halted_;  // the journal's error
  uint64_t last_request_ = 0;
  absl::StatusOr<JobId> last_answer_;

  std::atomic<std::thread::id> loop_id_;
  TaskThread planning_thread_;
  TaskThread file_thread_;
  EffectRunner runner_;
  NamedThread thread_;  // last: uses all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_COORDINATOR_H_
