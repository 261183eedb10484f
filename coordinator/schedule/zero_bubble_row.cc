#include "coordinator/schedule/zero_bubble_row.h"

#include <algorithm>

#include "coordinator/schedule/compute_table.h"

namespace stagecoach {

void AppendRow(const ZeroBubbleRow& phases, uint32_t num_micro_batches, v1::WorkerActions& row) {
  const uint32_t m = num_micro_batches;
  const uint32_t warmup = std::min(m, phases.num_warmup_micro_batches);
  const uint32_t delay = std::min(m, phases.weight_delay);
  // warm-up: F(0) .. F(k-1)
  for (uint32_t i = 0; i < warmup; ++i) Append(row, v1::ACTION_KIND_FORWARD, phases.stage, i);
  // steady: I(i) W(i-d) F(i+k), the W before the F, which could otherwise need the memory that the W frees
  for (uint32_t i = 0; i < m; ++i) {
    Append(row, v1::ACTION_KIND_BACKWARD_INPUT, phases.stage, i);
    if (i >= delay) Append(row, v1::ACTION_KIND_BACKWARD_WEIGHT, phases.stage, i - delay);
    if (i + warmup < m) Append(row, v1::ACTION_KIND_FORWARD, phases.stage, i + warmup);
  }
  // cool-down: W(m-d) .. W(m-1)
  for (uint32_t i = m - delay; i < m; ++i) Append(row, v1::ACTION_KIND_BACKWARD_WEIGHT, phases.stage, i);
}

}  // namespace stagecoach
