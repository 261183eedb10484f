#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_TIMING_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_TIMING_H_

#include <cstdint>
#include <vector>

#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_timing.h"

namespace stagecoach {

// Rows that change by one move at a time: an action goes to another place in its row, and only the times that this
// changes are computed again. A topological order of all actions is kept, so that each is computed once, after those it
// depends on.
class AutoRowTiming {
 public:
  // `rows` are accepted by the graph and do not wait for each other, nor for room (AutoTiming::RunWithRooms).
  AutoRowTiming(const AutoGraph& graph, const AutoRows& rows);

  // Takes the action at `from` of the worker's row to `to`; those between close up. False, and nothing is changed: the
  // order of micro-batches, an input on the same worker, memory, or a wait of rows for each other forbids it.
  bool Move(uint32_t worker, uint32_t from, uint32_t to);
  // Takes the last move back; only after one that returned true.
  void Undo();

  const AutoRows& rows() const { return rows_; }
  const AutoCost& cost() const { return cost_; }
  // Workers and positions of the actions that start when the one before them in the row ends, on one longest path.
  struct Place {
    uint32_t worker;
    uint32_t position;
  };
  // `coin` chooses between a row and an input that end at the same time.
  void CriticalPlaces(uint64_t coin, std::vector<Place>& places) const;
  // Actions looked at so far: what the search has cost.
  uint64_t work() const { return work_; }

 private:
  struct OldTime {
    uint32_t index;
    double end;
    double sent;
  };

  bool MayExchange(uint32_t first, uint32_t second) const;
  bool IsLegal(uint32_t worker, uint32_t from, uint32_t to) const;
  bool FitsMemory(uint32_t worker, uint32_t first, uint32_t last) const;
  void Shift(uint32_t worker, uint32_t from, uint32_t to);
  void CountHeld(uint32_t worker, uint32_t first, uint32_t last);
  uint32_t Before(uint32_t index) const;
  uint32_t After(uint32_t index) const;
  bool Reorder(uint32_t worker, uint32_t first, uint32_t last);
  void SetOrder(uint32_t first_rank, const std::vector<uint32_t>& part);
  void Mark(uint32_t index) { dirty_[rank_[index] / 64] |= uint64_t{1} << (rank_[index] % 64); }
  void Propagate(uint32_t worker, uint32_t first, uint32_t last);
  void Retime(uint32_t index);

  const AutoGraph& graph_;
  AutoRows rows_;
  std::vector<uint32_t> position_;           // of each node in its row
  std::vector<std::vector<uint32_t>> held_;  // [worker][position] forwards held before the action
  std::vector<double> end_;
  std::vector<double> sent_;
  std::vector<uint32_t> order_;  // topological
  std::vector<uint32_t> rank_;   // place in `order_`
  std::vector<uint64_t> dirty_;  // bits by rank
  AutoCost cost_;
  uint64_t work_ = 0;

  // The last move, for Undo.
  uint32_t moved_worker_ = 0;
  uint32_t moved_from_ = 0;
  uint32_t moved_to_ = 0;
  AutoCost old_cost_;
  std::vector<OldTime> old_times_;
  uint32_t window_rank_ = 0;
  std::vector<uint32_t> old_window_;

  // Space of Reorder.
  std::vector<uint32_t> new_window_;
  std::vector<uint32_t> num_waits_;
  std::vector<uint64_t> open_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_TIMING_H_
