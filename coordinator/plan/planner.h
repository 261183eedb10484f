#ifndef STAGECOACH_COORDINATOR_PLAN_PLANNER_H_
#define STAGECOACH_COORDINATOR_PLAN_PLANNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/job_cut.h"
#include "coordinator/plan/worker_profile.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

struct PlannedJob {
  v1::ModelGraph graph;
  v1::Plan plan;
  // Of the plan, when it does not follow from the name of its schedule: it was searched for. With R, as it was lowered.
  std::optional<v1::ComputeTable> order;
  ScheduledCut cut;                                   // what the plan says, as it was found; of LowerAgain: nothing
  std::vector<v1::StageProgram> programs;             // by worker rank; verified
  std::vector<v1::StageProgram> evaluation_programs;  // likewise, forward only
};

// Cuts a resolved specification over `workers` (all of them when the degree is auto) for each schedule that it may
// have and, when the specification has none, for each micro-batch size (the graph's), chooses what has the shortest
// predicted step, lowers, verifies. Nothing that has not passed the verifier leaves here. Pure; may take seconds.
// INVALID_ARGUMENT: more stages than blocks, a partition list that does not sum to num_hidden_layers, fewer workers
// than the degree, virtual stages with which the schedule does not run, an order (parallelism.order) that is none or
// does not come to an end. RESOURCE_EXHAUSTED: the stages do not fit; with what is lacking, and what would make it fit
// (fit_advice.h).
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers);
absl::StatusOr<PlannedJob> PlanJobWith(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                       const PlanOptions& options);

// A plan that was made before, with the order that was searched for it: both as PlanJob gave them. Nothing is cut,
// timed or searched again, so that the programs are the same whatever has become known of costs since, and however a
// later search searches. Proven for `workers`, one for each row. Pure. INVALID_ARGUMENT: the order is not of that plan,
// or the plan not of that specification, or the workers lack memory for it.
absl::StatusOr<PlannedJob> LowerAgain(const v1::JobSpec& spec, const v1::Plan& plan, const v1::ComputeTable& order,
                                      const std::vector<WorkerProfile>& workers);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PLANNER_H_
