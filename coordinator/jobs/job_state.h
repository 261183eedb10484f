#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_STATE_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_STATE_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Why a job is in its state: the `reason` of JobStatus, for scripts; the message is for people.
inline constexpr char kReasonWaitingForWorkers[] = "WaitingForWorkers";
inline constexpr char kReasonProfiling[] = "Profiling";
inline constexpr char kReasonPlanning[] = "Planning";
inline constexpr char kReasonPreparingStages[] = "PreparingStages";
inline constexpr char kReasonTraining[] = "Training";
inline constexpr char kReasonRecovering[] = "Recovering";
inline constexpr char kReasonPauseRequested[] = "PauseRequested";
inline constexpr char kReasonWritingCheckpoint[] = "WritingCheckpoint";
inline constexpr char kReasonCancelRequested[] = "CancelRequested";
inline constexpr char kReasonCompleted[] = "Completed";
inline constexpr char kReasonInvalidData[] = "InvalidData";
inline constexpr char kReasonDataChanged[] = "DataChanged";
inline constexpr char kReasonPlanningFailed[] = "PlanningFailed";
inline constexpr char kReasonWorkerFailed[] = "WorkerFailed";
inline constexpr char kReasonWorkerLost[] = "WorkerLost";
inline constexpr char kReasonWorkerHung[] = "WorkerHung";
inline constexpr char kReasonLossNotFinite[] = "LossNotFinite";
inline constexpr char kReasonCheckpointFailed[] = "CheckpointFailed";
inline constexpr char kReasonCheckpointNotFound[] = "CheckpointNotFound";
inline constexpr char kReasonCorruptCheckpoint[] = "CorruptCheckpoint";
inline constexpr char kReasonCheckpointUnreadable[] = "CheckpointUnreadable";  // an error of the disk, not damage
inline constexpr char kReasonSpecChanged[] = "SpecChanged";  // since the checkpoint to resume from was written
inline constexpr char kReasonCoordinatorRestarted[] = "CoordinatorRestarted";

struct JobStateTransition {
  v1::JobState from;
  v1::JobState to;
};

// Every change of state that a job may make. A job that has not ended may also change its reason within a state.
std::span<const JobStateTransition> JobStateTransitions();

// FAILED_PRECONDITION, naming both states: not in the table.
absl::Status CheckTransition(v1::JobState from, v1::JobState to);

bool HasEnded(v1::JobState state);
std::string JobStateName(v1::JobState state);  // "RUNNING"

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_STATE_H_
