#ifndef STAGECOACH_COORDINATOR_JOBS_EPOCH_H_
#define STAGECOACH_COORDINATOR_JOBS_EPOCH_H_

#include <cstddef>

#include "absl/status/status.h"
#include "common/ids.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// Begins the next epoch with the members and the plan that the job has: appends, and assigns the stages.
void StartEpoch(JobDecision& decision);

// The arithmetic of steps relies on these. INTERNAL: the planner broke its contract.
absl::Status CheckPlan(const JobPlan& plan, const v1::JobSpec& spec, size_t num_members);

// From a plan to the first run: each returns false when the input comes at the wrong time, twice or too late, and has
// then changed nothing.
bool OnPlanReady(JobDecision& decision, const PlanReady& input);
bool OnStagesPrepared(JobDecision& decision, WorkerRank rank, const v1::StagesPrepared& message);
bool OnPeersConnected(JobDecision& decision, WorkerRank rank);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_EPOCH_H_
