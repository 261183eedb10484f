#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_KEY_SEARCH_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_KEY_SEARCH_H_

#include <cstdint>
#include <vector>

#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_list_scheduler.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_timing.h"

namespace stagecoach {

// How a first set of keys is laid out: the pass of micro-batch 0 down and up the stages, repeated every period.
struct AutoKeyPattern {
  double forward_stride = 1;  // of a stage's own F, from one stage to the next
  double input_stride = 1;
  double weight_delay = 0;  // periods from an I to its W
  double patience = 0;
  enum class Depth { kUnlimited, kFalling, kLevel } depth = Depth::kUnlimited;  // falling: that of 1F1B
};

// Searches for keys whose list schedule is short. Local moves on rows cannot do what one key does: shift an action on
// every worker and in every period at once. First a grid of patterns, then simulated annealing from the best few: keys
// of some stages, one kind and a window of micro-batches are shifted.
class AutoKeySearch {
 public:
  // Stops early at a cost of `target`, which nothing can beat.
  AutoKeySearch(const AutoGraph& graph, double target, uint64_t seed);

  // Runs about `num_lists` list schedules.
  void Run(uint32_t num_lists);

  const AutoRows& best_rows() const { return best_rows_; }
  const AutoCost& best_cost() const { return best_cost_; }

 private:
  struct Candidate {
    double seconds;
    AutoKeyPattern pattern;
  };
  // Shifts the keys of one kind, stages [first_stage, last_stage) and micro-batches [first, last).
  struct Shift {
    uint32_t kind = 0;
    uint32_t first_stage = 0;
    uint32_t last_stage = 0;
    uint32_t first = 0;
    uint32_t last = 0;
    double seconds = 0;
    bool tilted = false;  // less at the first stages than at the last
    bool ramped = false;  // grows from micro-batch `first` on, past `last`
  };

  bool Done() const;
  AutoKeys KeysOf(const AutoKeyPattern& pattern) const;
  AutoCost Try(const AutoKeys& keys);
  std::vector<Candidate> TryPatterns(uint32_t num_lists);
  void Anneal(AutoKeys keys, uint32_t num_lists);
  Shift RandomShift();
  void ChooseWindow(Shift& shift);
  void Apply(const Shift& shift, double sign, AutoKeys& keys) const;
  void ChangeDepth(AutoKeys& keys);

  const AutoGraph& graph_;
  double target_;
  AutoRandom random_;
  AutoListScheduler scheduler_;
  AutoRows best_rows_;
  AutoCost best_cost_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_KEY_SEARCH_H_
