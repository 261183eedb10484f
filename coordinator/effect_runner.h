#ifndef STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_
#define STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_

#include <functional>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/journal/store.h"
#include "coordinator/state.h"
#include "coordinator/task_thread.h"

namespace stagecoach {

using Planner = std::function<absl::StatusOr<PlannedJob>(const v1::JobSpec&, const std::vector<WorkerProfile>&)>;

// Takes a message for one worker. Must not block; an error means that the worker is lost.
using WorkerSink = std::function<absl::Status(v1::CoordinatorMessage)>;

// A Status: the coordinator has ended, and no further events will come.
using FollowEvent = std::variant<v1::JobStatus, v1::StepEvent, absl::Status>;
using Follower = std::function<void(const FollowEvent&)>;

// Does what decisions say, in order. What takes long (planning, files) is done by task threads, whose results come back
// as inputs. Used by the coordinator's thread alone.
class EffectRunner {
 public:
  // All outlive the runner. `post` puts an input into the coordinator's queue; `post_result` does, and waits while it
  // is full. Both thread-safe.
  struct Collaborators {
    State& state;
    Store& store;
    FileSystem& files;
    Planner planner;
    TaskThread& planning_thread;
    TaskThread& file_thread;
    std::function<absl::Status(Input)> post;
    std::function<void(Input)> post_result;
    std::function<void(uint64_t, absl::StatusOr<JobId>)> answer;
  };
  explicit EffectRunner(Collaborators collaborators) : to_(std::move(collaborators)) {}

  // Fills in sequence and term, appends, applies. CommitRecords are not synced. An error of the store: nothing was
  // applied.
  absl::Status Append(v1::JournalEntry entry, CoordinatorTerm term);
  // Stops at the first error, the journal's or that of a full queue: the effects behind it have not happened.
  absl::Status Run(Decision decision);
  // Whether a Tick has been asked for since the last call.
  bool TakeTickRequest() { return std::exchange(tick_requested_, false); }

  void SetSink(const WorkerId& worker, Incarnation incarnation, WorkerSink sink);
  // Starts with the job's status; ends with its last one.
  void AddFollower(const JobRecord& job, Follower follower);
  void EndFollowers(const absl::Status& why);

 private:
  struct Session {
    Incarnation incarnation;
    WorkerSink sink;
  };

  absl::Status RunEffect(AppendEntry& effect);
  absl::Status RunEffect(ObserveFact& effect);
  absl::Status RunEffect(SendToWorker& effect);
  absl::Status RunEffect(StartPlanning& effect);
  absl::Status RunEffect(MakeDirectory& effect);
  absl::Status RunEffect(WriteManifest& effect);
  absl::Status RunEffect(NotifyFollowers& effect);
  absl::Status RunEffect(AnswerRequest& effect);
  absl::Status RunEffect(RequestTick& effect);

  const Collaborators to_;
  bool tick_requested_ = false;
  std::map<WorkerId, Session> sessions_;
  std::map<JobId, std::vector<Follower>> followers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_EFFECT_RUNNER_H_
