#include "coordinator/schedule/zb_v.h"

#include <algorithm>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/v_row.h"

namespace stagecoach {
namespace {

// F0 is the forward of the worker's chunk 0; M is at least 2P-1.
void AppendPhases(uint32_t p, uint32_t worker, uint32_t m, VRow row) {
  const uint32_t num_workers_after = p - 1 - worker;
  // warm-up: F0 until the first micro-batch is back, then as many of both chunks as memory holds
  for (uint32_t i = 0; i < 2 * num_workers_after + 1; ++i) row.Forward(0);
  for (uint32_t i = 0; i < worker; ++i) {
    row.Forward(1);
    row.Forward(0);
  }
  for (uint32_t i = 0; i < num_workers_after + 1; ++i) {
    row.Forward(1);
    row.Backward(1);
  }
  // steady: F0 I0 W0 F1 I1 W1
  for (uint32_t i = p; i < m; ++i) {
    row.Forward(0);
    row.Backward(0);
    row.Forward(1);
    row.Backward(1);
  }
  // cool-down: gradients travel on while W's wait; then W's, in pairs with the last gradients
  for (uint32_t i = 0; i < worker; ++i) {
    row.BackwardInput(0);
    row.BackwardInput(1);
  }
  for (uint32_t i = 0; i < num_workers_after + 1; ++i) {
    row.BackwardInput(0);
    row.BackwardWeight(0);
  }
  for (uint32_t i = 0; i < worker; ++i) row.BackwardWeight(1);
  for (uint32_t i = 0; i < worker; ++i) row.BackwardWeight(0);
}

}  // namespace

absl::StatusOr<v1::ComputeTable> ZbVSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  const uint32_t p = problem.num_workers;
  const uint32_t m = std::max(problem.num_micro_batches, 2 * p - 1);
  for (uint32_t worker = 0; worker < p; ++worker) {
    AppendPhases(p, worker, m, VRow(problem, worker, *table.mutable_workers(static_cast<int>(worker))));
  }
  return table;
}

}  // namespace stagecoach
