#ifndef STAGECOACH_COORDINATOR_JOBS_REQUESTS_H_
#define STAGECOACH_COORDINATOR_JOBS_REQUESTS_H_

#include "absl/status/status.h"
#include "coordinator/jobs/job_decision.h"

namespace stagecoach {

// What clients ask of a job that is there. FAILED_PRECONDITION: it is in no state for that; nothing has changed.

// At once while nothing was trained; otherwise after the step in flight and a checkpoint. Refused when the job has
// ended or is about to end by itself. OK, and nothing changes, when that was asked before.
absl::Status CancelJob(JobDecision& decision);

// After the step in flight, and the evaluation that belongs to it, nothing is started. Likewise.
absl::Status PauseJob(JobDecision& decision);
// Refused when the job is not paused.
absl::Status ResumeJob(JobDecision& decision);

// A checkpoint after the step in flight; at once when the job is paused. Refused when there is no step to keep, or the
// job is about to end, with a checkpoint, by itself.
absl::Status CreateCheckpoint(JobDecision& decision);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_REQUESTS_H_
