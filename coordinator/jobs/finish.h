#ifndef STAGECOACH_COORDINATOR_JOBS_FINISH_H_
#define STAGECOACH_COORDINATOR_JOBS_FINISH_H_

#include "absl/status/status.h"
#include "coordinator/jobs/job_decision.h"

namespace stagecoach {

// How a job ends that has nothing more to train: its last step is in a checkpoint first, whenever that can be.

// The last step is committed: once every member has applied it, its checkpoint; then the job ends. Called again with
// each StepApplied, and when a checkpoint has ended.
void FinishTraining(JobDecision& decision);

// Ends the job, or begins to, if a member wants to leave. Whether one does.
bool EndForLeaver(JobDecision& decision);

// The checkpoint in the making has ended: what waits for it goes on.
void OnCheckpointEnded(JobDecision& decision, const absl::Status& status);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_FINISH_H_
