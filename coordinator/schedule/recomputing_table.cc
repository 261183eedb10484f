#include "coordinator/schedule/recomputing_table.h"

#include <cstddef>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {

v1::ComputeTable WithRecomputation(const v1::ComputeTable& table, const std::vector<bool>& recomputes) {
  v1::ComputeTable with = table;
  for (v1::WorkerActions& row : *with.mutable_workers()) {
    v1::WorkerActions before;
    row.Swap(&before);
    for (const v1::Action& action : before.actions()) {
      const bool reads = action.kind() == v1::ACTION_KIND_BACKWARD || action.kind() == v1::ACTION_KIND_BACKWARD_INPUT;
      if (reads && recomputes[action.stage()]) {
        Append(row, v1::ACTION_KIND_RECOMPUTE, action.stage(), action.micro_batch());
      }
      *row.add_actions() = action;
    }
  }
  return with;
}

absl::StatusOr<v1::ComputeTable> BuildRecomputing(const Schedule& schedule, const ScheduleProblem& problem,
                                                  const std::vector<bool>& recomputes) {
  ScheduleProblem with = problem;
  for (size_t stage = 0; stage < with.cost_of_stage.size(); ++stage) {
    StageCost& cost = with.cost_of_stage[stage];
    if (recomputes[stage]) cost.backward_input += cost.recompute;
  }
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, schedule.Build(with));
  return WithRecomputation(table, recomputes);
}

std::vector<bool> RecomputingStages(const v1::ComputeTable& table) {
  std::vector<bool> recomputes(table.num_stages());
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) {
      const bool is_recomputation = action.kind() == v1::ACTION_KIND_RECOMPUTE && action.stage() < table.num_stages();
      if (is_recomputation) recomputes[action.stage()] = true;
    }
  }
  return recomputes;
}

}  // namespace stagecoach
