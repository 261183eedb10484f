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
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "common/message_queue.h"
#include "common/named_thread.h"
#include "coordinator/effect_runner.h"
#include "coordinator/jobs/input.h"
#include "coordinator/journal/store.h"
#include "coordinator/state.h"
#include "coordinator/task_thread.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// What is known of a job, also after its end.
struct JobDescription {
  v1::JobStatus status;
  v1::JobSpec spec;
  v1::Plan plan;                     // of the current or last epoch; no stages before the first
  std::string checkpoint_directory;  // of the newest checkpoint; empty: none
  std::string digest;                // of its parameters, hex
  std::string state_digest;
};

// The control plane: one thread takes inputs from one queue, decides (Decide), and does what was decided
// (EffectRunner). Planning and files have threads of their own. All methods are thread-safe and none needs a lock of
// the caller's. Sinks and followers are called by the coordinator's thread: they must not block, and not call back what
// waits for it (FAILED_PRECONDITION). UNAVAILABLE from any method: stopped, or the journal could not be written, which
// ends every job and is not recovered from.
class Coordinator {
 public:
  struct Options {
    Store& store;        // outlives the coordinator
    const Clock& clock;  // likewise
    FileSystem& files;   // likewise
    Planner planner;     // PlanJob; called by the planning thread
    size_t queue_capacity = 1 << 16;
    absl::Duration tick_interval = absl::Milliseconds(100);  // real time
  };
  // Locks the journal, replays it, takes the next term. FAILED_PRECONDITION: another coordinator has it. DATA_LOSS:
  // entries contradict each other or do not parse.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(Options options);
  ~Coordinator() { Stop(); }

  // A new session. Of the same worker, another incarnation ends the session before it. The first message is Welcome.
  // INVALID_ARGUMENT: no name. RESOURCE_EXHAUSTED: the queue is full.
  absl::Status ConnectWorker(const v1::Hello& hello, Incarnation incarnation, WorkerSink sink);
  absl::Status Deliver(const WorkerId& worker, v1::WorkerMessage message);
  absl::Status WorkerLost(const WorkerId& worker, Incarnation incarnation, const absl::Status& why);

  // Waits until the job is in the journal. ALREADY_EXISTS, INVALID_ARGUMENT.
  absl::StatusOr<JobId> SubmitJob(const v1::JobSpec& spec);
  // Waits for the decision, not for the job's end. NOT_FOUND. FAILED_PRECONDITION: it has ended.
  absl::Status CancelJob(const JobId& job);
  // The current status at once, then every change of it and every step, until the job has ended. NOT_FOUND.
  absl::Status Follow(const JobId& job, Follower follower);
  absl::StatusOr<v1::JobStatus> GetJob(const JobId& job);
  absl::StatusOr<JobDescription> DescribeJob(const JobId& job);

  // Ends the threads; workers are not told. No sink or follower is called afterwards. Idempotent; not by the
  // coordinator's thread.
  void Stop();

 private:
  explicit Coordinator(Options options);

  absl::Status Replay();
  void Loop();
  void Handle(const Input& input);
  absl::Status Post(Input input);
  void PostResult(const Input& input);
  // Runs `ask` on the coordinator's thread and waits for what it returns.
  template <typename T>
  absl::StatusOr<T> Ask(std::function<absl::StatusOr<T>()> ask);
  absl::StatusOr<JobId> Request(std::function<Input(uint64_t)> make_input);
  absl::StatusOr<const JobRecord*> Find(const JobId& job) const;

  const Options options_;
  MessageQueue<std::function<void()>> queue_;

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
