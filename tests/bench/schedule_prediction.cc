#include "tests/bench/schedule_prediction.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "coordinator/program/critical_path.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

v1::ComputeTable WithSplitBackwards(const v1::ComputeTable& table) {
  v1::ComputeTable split = table;
  for (v1::WorkerActions& row : *split.mutable_workers()) {
    const v1::WorkerActions whole = std::exchange(row, {});
    for (const v1::Action& action : whole.actions()) {
      if (action.kind() != v1::ACTION_KIND_BACKWARD) {
        *row.add_actions() = action;
        continue;
      }
      Append(row, v1::ACTION_KIND_BACKWARD_INPUT, action.stage(), action.micro_batch());
      Append(row, v1::ACTION_KIND_BACKWARD_WEIGHT, action.stage(), action.micro_batch());
    }
  }
  return split;
}

}  // namespace

absl::StatusOr<SchedulePrediction> PredictSchedule(const Schedule& schedule, const PipelineShape& shape) {
  const uint32_t num_stages = shape.num_workers * shape.num_chunks;
  const StageCost cost{shape.costs.forward, shape.costs.backward_input, shape.costs.backward_weight};
  ScheduleProblem problem{.num_workers = shape.num_workers,
                          .num_chunks = shape.num_chunks,
                          .num_micro_batches = shape.num_micro_batches,
                          .cost_of_stage = std::vector<StageCost>(num_stages, cost)};
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, schedule.Build(problem));
  STAGECOACH_ASSIGN_OR_RETURN(const Timeline published, Simulate(table, problem));
  problem.communication_seconds = shape.hop_seconds;
  STAGECOACH_ASSIGN_OR_RETURN(const Timeline timeline, Simulate(WithSplitBackwards(table), problem));
  const double one_worker = (cost.forward + cost.backward_input + cost.backward_weight) * num_stages *
                            static_cast<double>(shape.num_micro_batches);
  return SchedulePrediction{.seconds = timeline.makespan,
                            .num_path_actions = static_cast<uint32_t>(CriticalPath(timeline).size()),
                            .ideal_speed_up = one_worker / published.makespan};
}

}  // namespace stagecoach
