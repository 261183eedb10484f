#ifndef STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_
#define STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_

#include "common/ids.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The final checkpoint: once every member has applied the last step, a new directory, a shard from each member, the
// manifest; then the job ends. Called again with each StepApplied.
void FinishTraining(JobDecision& decision);

// False: at the wrong time or twice; nothing has changed.
bool OnDirectoryMade(JobDecision& decision, const DirectoryMade& input);
bool OnShardWritten(JobDecision& decision, WorkerRank rank, const v1::ShardWritten& message);
bool OnManifestWritten(JobDecision& decision, const ManifestWritten& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_CHECKPOINT_H_
