#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_TIMING_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_TIMING_H_

#include <cstdint>
#include <vector>

#include "coordinator/schedule/auto_graph.h"

namespace stagecoach {

// What a search minimises: `worst`, and among equals `mean`, which tells how much of the others is left to gain.
struct AutoCost {
  double worst = 0;  // latest end of a worker, counted from its origin
  double mean = 0;   // of all workers
};

// Start and end times of rows, as coordinator/program/simulator.h defines them, to the bit, for a problem without skip
// edges.
class AutoTiming {
 public:
  explicit AutoTiming(const AutoGraph& graph);

  // False: the rows wait for each other.
  bool Run(const AutoRows& rows) { return Run(rows, /*rooms=*/false); }
  // The same, where an action also waits for room on its edge; the times are then not those of the simulator.
  bool RunWithRooms(const AutoRows& rows) { return Run(rows, /*rooms=*/true); }

  double end(uint32_t index) const { return end_[index]; }
  // When the edge its result leaves by has carried it.
  double sent(uint32_t index) const { return sent_[index]; }
  double start(uint32_t index) const { return start_[index]; }
  // Every node after those it depends on.
  const std::vector<uint32_t>& order() const { return order_; }
  const AutoCost& cost() const { return cost_; }

 private:
  bool Run(const AutoRows& rows, bool rooms);
  void AdvanceRow(const AutoRows& rows, uint32_t worker, bool rooms);
  void Wake(const AutoRows& rows, uint32_t index);

  const AutoGraph& graph_;
  std::vector<double> start_;  // kept: an end less a duration may be a rounding error before the start
  std::vector<double> end_;
  std::vector<double> sent_;
  std::vector<uint8_t> has_run_;
  std::vector<uint32_t> position_;  // of each row's next action
  std::vector<uint32_t> runnable_;  // workers whose next action may have its input
  std::vector<uint32_t> order_;
  AutoCost cost_;
};

AutoCost CostOfEnds(const AutoGraph& graph, const AutoRows& rows, const std::vector<double>& ends);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_TIMING_H_
