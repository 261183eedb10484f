#ifndef STAGECOACH_COORDINATOR_JOBS_PROFILING_H_
#define STAGECOACH_COORDINATOR_JOBS_PROFILING_H_

#include <memory>
#include <string>

#include "common/ids.h"
#include "coordinator/jobs/job_decision.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/plan/layer_costs.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// From a gang to an order to plan. When the job wants measured costs and some that its plan needs are not known, the
// gang's first worker measures them before, while the others are idle. That never fails a job: what a worker cannot
// measure, or not in time, is reckoned from FLOPs, and the reason of planning says so.

// What a member says about itself, when it is reserved or has dialled.
void NoteMember(JobDecision& decision, WorkerRank rank, const v1::Hello& hello);

// The members are reserved, and the first of them is noted. Enters kProfiling or kPlanning.
void BeginPreparation(JobDecision& decision);

// Each returns false when the input comes at the wrong time, twice or too late, and has then changed nothing.
bool OnLayersMeasured(JobDecision& decision, WorkerRank rank, const v1::LayersMeasured& message);
// The worker that measures has dialled again: what it was asked, or what it answered, may be lost.
bool AskToMeasureAgain(JobDecision& decision, WorkerRank rank);

// The phase is over without an answer: plans.
void OnProfilingLate(JobDecision& decision);

// The job gives its workers back: what is being measured is not needed any more.
void EndProfiling(JobDecision& decision);

// What planning may reckon with on the job's members. Null: nothing is known.
std::shared_ptr<const LayerCosts> CostsOfMembers(const JobDecision& decision);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_PROFILING_H_
