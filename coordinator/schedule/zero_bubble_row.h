#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ZERO_BUBBLE_ROW_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ZERO_BUBBLE_ROW_H_

#include <cstdint>

#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// A stage's part of the hand-made schedules of the Zero Bubble paper (Qi et al., Zero Bubble Pipeline Parallelism,
// section 2.3): as 1F1B, with B split into I and W, and each W a fixed number of micro-batches behind its I.
struct ZeroBubbleRow {
  uint32_t stage = 0;
  uint32_t num_warmup_micro_batches = 1;  // forwards before the first I; at least 1
  uint32_t weight_delay = 0;              // I's between an I and its W; pending_weight is at most one more
};
void AppendRow(const ZeroBubbleRow& phases, uint32_t num_micro_batches, v1::WorkerActions& row);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ZERO_BUBBLE_ROW_H_
