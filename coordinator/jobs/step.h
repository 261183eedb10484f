#ifndef STAGECOACH_COORDINATOR_JOBS_STEP_H_
#define STAGECOACH_COORDINATOR_JOBS_STEP_H_

#include <cstdint>

#include "common/ids.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/micro_batches.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// So many steps in a row whose gradients are not finite end the job: it will not get better by itself.
inline constexpr uint64_t kMaxConsecutiveSkips = 20;

struct StepBatch {
  uint64_t first_sample = 0;  // global sample index
  uint64_t num_samples = 0;
  MicroBatches micro_batches;
};
StepBatch BatchOfStep(const JobRecord& job, uint64_t step);

bool HasValidation(const JobPlan& plan);
// No further step will run: all are done, or the job was cancelled.
bool IsLastStep(const JobRecord& job, uint64_t step);

// The evaluation of the last committed step, if it has one that was not made, or else the next step.
void GoOnAfterLastStep(JobDecision& decision);
// Runs the step after the last committed one, or waits for a checkpoint that is due, or goes on to the final one; a
// paused job stays where it is, and one that a member wants to leave ends.
void StartNextStep(JobDecision& decision);
// Tells every member the verdict on the last committed step. `snapshot`: they keep a copy of the state that it gives.
void SendCommit(JobDecision& decision, bool snapshot);

// False: at the wrong time, twice or too late; nothing has changed. The last vote decides and commits the step, and
// starts what comes next without waiting for the updates.
bool OnStepPrepared(JobDecision& decision, WorkerRank rank, const v1::StepPrepared& message);
bool OnStepApplied(JobDecision& decision, WorkerRank rank, const v1::StepApplied& message);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_STEP_H_
