#ifndef STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_TIMES_H_
#define STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_TIMES_H_

#include "coordinator/jobs/job_decision.h"

namespace stagecoach {

// When a running job is to have a checkpoint: every checkpoint.interval_steps, or interval_time after the last one
// began, or when a client asks. One that is due while another is in the making begins after it. And by when it is to be
// complete.

// The last committed step makes one due.
void NoteCheckpointDue(JobDecision& decision);

// Whether the commit of the last step is to ask for snapshots, from which the checkpoint that is due is written while
// training goes on.
bool SnapshotIsDue(const JobDecision& decision);

// Whether training, between two steps, is to wait for the one that is due: the workers keep no snapshots.
bool MustAwaitCheckpoint(const JobDecision& decision);

// From its beginning, of one that is written behind training: the larger of checkpoint_timeout, and all its bytes at
// checkpoint_bytes_per_second. One that training waits for has the deadlines of its phases.
absl::Duration CheckpointTimeout(const JobPlan& plan, const FleetOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_TIMES_H_
