#ifndef STAGECOACH_COORDINATOR_JOBS_EVALUATION_H_
#define STAGECOACH_COORDINATOR_JOBS_EVALUATION_H_

#include <cstdint>

#include "common/ids.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The step has an evaluation (IsEvaluatedStep) that has not been made; not for a cancelled job.
bool EvaluationIsDue(const JobRecord& job, uint64_t step);

// As many runs of the evaluation program as cover the validation samples, one after the other; then the loss is
// journalled, and training goes on.
void StartEvaluation(JobDecision& decision);
// False: not of the run in flight, or twice; nothing has changed.
bool OnEvaluationDone(JobDecision& decision, WorkerRank rank, const v1::EvaluationDone& message);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_EVALUATION_H_
