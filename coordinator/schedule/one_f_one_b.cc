#include "coordinator/schedule/one_f_one_b.h"

#include <algorithm>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {

absl::StatusOr<v1::ComputeTable> OneForwardOneBackwardSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  const uint32_t m = problem.num_micro_batches;
  for (uint32_t stage = 0; stage < problem.num_workers; ++stage) {
    v1::WorkerActions& row = *table.mutable_workers(static_cast<int>(stage));
    const uint32_t num_warmup_micro_batches = std::min(m, problem.num_workers - 1 - stage);
    // warm-up: F0 .. F(k-1)
    for (uint32_t i = 0; i < num_warmup_micro_batches; ++i) Append(row, v1::ACTION_KIND_FORWARD, stage, i);
    // steady: F(k) B0, F(k+1) B1, ...
    for (uint32_t i = num_warmup_micro_batches; i < m; ++i) {
      Append(row, v1::ACTION_KIND_FORWARD, stage, i);
      Append(row, v1::ACTION_KIND_BACKWARD, stage, i - num_warmup_micro_batches);
    }
    // cool-down: B(m-k) .. B(m-1)
    for (uint32_t i = m - num_warmup_micro_batches; i < m; ++i) Append(row, v1::ACTION_KIND_BACKWARD, stage, i);
  }
  return table;
}

}  // namespace stagecoach
