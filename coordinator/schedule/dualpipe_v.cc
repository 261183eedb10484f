#include "coordinator/schedule/dualpipe_v.h"

#include <algorithm>
#include <queue>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/v_row.h"

namespace stagecoach {
namespace {

// The phases have the source's order; F0 is the forward of the worker's chunk 0. M is at least 2P.
void AppendForwardPhases(uint32_t p, uint32_t worker, uint32_t m, VRow& row) {
  const uint32_t num_workers_after = p - 1 - worker;
  for (uint32_t i = 0; i < 2 * num_workers_after; ++i) row.Forward(0);
  for (uint32_t i = 0; i < worker + 1; ++i) {
    row.Forward(0);
    row.Forward(1);
  }
  for (uint32_t i = 0; i < num_workers_after; ++i) {
    row.Backward(1);
    row.Forward(1);
  }
  // The main phase: pairs F0 B1 and F1 B0.
  for (uint32_t i = 2 * p - worker - 1; i < m; ++i) {
    row.Forward(0);
    row.Backward(1);
    row.Forward(1);
    row.Backward(0);
  }
  for (uint32_t i = 0; i < num_workers_after; ++i) {
    row.Backward(1);
    row.Forward(1);
    row.Backward(0);
  }
}

// The backwards that are left: 2 (worker + 1) of both chunks in turn, then P-1-worker of chunk 0. From the middle of
// the former on, W's wait and fill the gaps between the latter.
void AppendBackwardPhases(uint32_t p, uint32_t worker, VRow& row) {
  std::queue<uint32_t> chunks_with_weight_pending;
  for (uint32_t i = 0; i < 2 * (worker + 1); ++i) {
    const uint32_t chunk = i % 2 == 0 ? 1 : 0;
    row.BackwardInput(chunk);
    if (i < worker + 1) {
      row.BackwardWeight(chunk);
    } else {
      chunks_with_weight_pending.push(chunk);
    }
  }
  const auto append_weight = [&] {
    row.BackwardWeight(chunks_with_weight_pending.front());
    chunks_with_weight_pending.pop();
  };
  for (uint32_t i = 0; i < p - 1 - worker; ++i) {
    append_weight();
    row.BackwardInput(0);
    chunks_with_weight_pending.push(0);
  }
  while (!chunks_with_weight_pending.empty()) append_weight();
}

}  // namespace

absl::StatusOr<v1::ComputeTable> DualPipeVSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  const uint32_t p = problem.num_workers;
  const uint32_t m = std::max(problem.num_micro_batches, 2 * p);
  for (uint32_t worker = 0; worker < p; ++worker) {
    VRow row(problem, worker, *table.mutable_workers(static_cast<int>(worker)));
    AppendForwardPhases(p, worker, m, row);
    AppendBackwardPhases(p, worker, row);
  }
  return table;
}

}  // namespace stagecoach
