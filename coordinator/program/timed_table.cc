#include "coordinator/program/timed_table.h"

#include <cstddef>
#include <vector>

#include "coordinator/program/memory_curve.h"

namespace stagecoach {

v1::TimedTable TimedTableOf(const v1::ComputeTable& table, const Timeline& timeline) {
  v1::TimedTable timed_table;
  timed_table.set_schedule(table.schedule());
  timed_table.set_num_stages(table.num_stages());
  timed_table.set_num_micro_batches(table.num_micro_batches());
  const std::vector<std::vector<MemoryPoint>> curves = MemoryCurves(timeline);
  for (size_t rank = 0; rank < timeline.workers.size(); ++rank) {
    v1::TimedWorker& worker = *timed_table.add_workers();
    for (const TimedAction& timed : timeline.workers[rank]) {
      v1::TimedAction& action = *worker.add_actions();
      *action.mutable_action() = timed.action;
      action.set_start_seconds(timed.start);
      action.set_end_seconds(timed.end);
    }
    for (const MemoryPoint& point : curves[rank]) {
      v1::MemoryPoint& added = *worker.add_memory();
      added.set_seconds(point.seconds);
      added.set_activations(point.activations);
      added.set_pending_weight(point.pending_weight);
    }
  }
  return timed_table;
}

v1::ComputeTable TableOf(const v1::TimedTable& timed) {
  v1::ComputeTable table;
  table.set_schedule(timed.schedule());
  table.set_num_stages(timed.num_stages());
  table.set_num_micro_batches(timed.num_micro_batches());
  for (const v1::TimedWorker& timed_worker : timed.workers()) {
    v1::WorkerActions& worker = *table.add_workers();
    for (const v1::TimedAction& action : timed_worker.actions()) *worker.add_actions() = action.action();
  }
  return table;
}

}  // namespace stagecoach
