#include "coordinator/schedule/v_row.h"

#include "coordinator/schedule/compute_table.h"

namespace stagecoach {

VRow::VRow(const ScheduleProblem& problem, uint32_t worker, v1::WorkerActions& row)
    : num_micro_batches_(problem.num_micro_batches),
      stage_of_chunk_({worker, 2 * problem.num_workers - 1 - worker}),
      row_(row) {}

void VRow::AppendNext(v1::ActionKind kind, uint32_t chunk, NextMicroBatch& next) {
  const uint32_t micro_batch = next[chunk]++;
  if (micro_batch < num_micro_batches_) Append(row_, kind, stage_of_chunk_[chunk], micro_batch);
}

}  // namespace stagecoach
