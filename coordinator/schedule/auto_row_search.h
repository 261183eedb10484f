#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_SEARCH_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_row_timing.h"
#include "coordinator/schedule/auto_timing.h"

namespace stagecoach {

// Temperatures at the start and at the end, in periods of the graph.
struct AutoCooling {
  double hot;
  double cold;
};

// Simulated annealing over the rows themselves: actions of a longest path go a few places forward or back in their row.
// Only such a move can shorten the whole (as in job shops: van Laarhoven, Aarts, Lenstra, 1992).
class AutoRowSearch {
 public:
  // From `rows`, as AutoRowTiming takes them. Stops early at `target`.
  AutoRowSearch(const AutoGraph& graph, const AutoRows& rows, double target, uint64_t seed);

  // Tries at most `num_moves` moves and looks at about `work` actions.
  void Run(const AutoCooling& cooling, uint64_t num_moves, uint64_t work);

  const AutoRows& best_rows() const { return best_rows_; }
  const AutoCost& best_cost() const { return best_cost_; }

 private:
  struct MoveChoice {
    uint32_t worker;
    uint32_t from;
    uint32_t to;
  };
  std::optional<MoveChoice> ChooseMove();
  void Keep();

  const AutoGraph& graph_;
  double target_;
  AutoRandom random_;
  AutoRowTiming timing_;
  std::vector<AutoRowTiming::Place> critical_;
  AutoRows best_rows_;
  AutoCost best_cost_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_ROW_SEARCH_H_
