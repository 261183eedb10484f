#ifndef STAGECOACH_COORDINATOR_PLAN_PLANNER_H_
#define STAGECOACH_COORDINATOR_PLAN_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/program/simulator.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

struct WorkerProfile {
  double flops_per_second = 5e10;  // of one worker with the job's threads; analytic until measured
  uint64_t memory_bytes = 0;       // 0: no limit
};

struct PlannedJob {
  v1::ModelGraph graph;
  v1::Plan plan;
  v1::ComputeTable table;
  Timeline timeline;
  std::vector<v1::StageProgram> programs;             // by worker rank; verified
  std::vector<v1::StageProgram> evaluation_programs;  // likewise, forward only
};

// Cuts a resolved specification over `workers` (all of them when the degree is auto), chooses the schedule, lowers,
// verifies, times. Nothing that has not passed the verifier leaves here. Pure; may take seconds. INVALID_ARGUMENT: more
// stages than blocks, a partition list that does not sum to num_hidden_layers, fewer workers than the degree.
// RESOURCE_EXHAUSTED: a stage does not fit.
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PLANNER_H_
