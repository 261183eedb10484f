#include "coordinator/schedule/forward_only.h"

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {

absl::StatusOr<v1::ComputeTable> ForwardOnlySchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  for (uint32_t stage = 0; stage < problem.num_workers; ++stage) {
    v1::WorkerActions& row = *table.mutable_workers(static_cast<int>(stage));
    for (uint32_t i = 0; i < problem.num_micro_batches; ++i) Append(row, v1::ACTION_KIND_FORWARD, stage, i);
  }
  return table;
}

}  // namespace stagecoach
