#include "coordinator/schedule/zb_h1.h"

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/zero_bubble_row.h"

namespace stagecoach {

absl::StatusOr<v1::ComputeTable> ZbH1Schedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  const uint32_t p = problem.num_workers;
  for (uint32_t stage = 0; stage < p; ++stage) {
    AppendRow({.stage = stage, .num_warmup_micro_batches = p - stage, .weight_delay = stage}, problem.num_micro_batches,
              *table.mutable_workers(static_cast<int>(stage)));
  }
  return table;
}

}  // namespace stagecoach
