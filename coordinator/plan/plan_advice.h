#ifndef STAGECOACH_COORDINATOR_PLAN_PLAN_ADVICE_H_
#define STAGECOACH_COORDINATOR_PLAN_PLAN_ADVICE_H_

#include <cstdint>
#include <optional>

#include "coordinator/plan/planner.h"

namespace stagecoach {

// The step if one block went to the stage before or after its own, in the same order of actions.
struct BlockMove {
  uint32_t layer = 0;
  uint32_t from_stage = 0;
  uint32_t to_stage = 0;
  double step_seconds = 0;
};

// What small changes of a plan would do to its step. Times are the plan's, without the optimizer's update; memory is
// not looked at.
struct PlanAdvice {
  double step_seconds = 0;  // of the plan as it is, on the same terms
  // The move that makes the step shortest, also when that is longer than now. Nothing: every stage holds one block.
  std::optional<BlockMove> best_move = std::nullopt;
  // Moves that would leave other stages something to train are not known of an order that no schedule makes.
  bool some_moves_unknown = false;
  // With one more micro-batch of the same size. Nothing: the schedule has no table for so many, or the order has no
  // schedule.
  std::optional<double> step_seconds_with_one_more = std::nullopt;
  std::optional<double> bubble_ratio_with_one_more = std::nullopt;
};

// Pure.
PlanAdvice AdviseOn(const PlannedJob& job);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PLAN_ADVICE_H_
