#include "coordinator/program/stage_times.h"

namespace stagecoach {

double StageTimes::Duration(const v1::Action& action) const {
  const StageCost cost = CostOf(action.stage());
  switch (action.kind()) {
    case v1::ACTION_KIND_FORWARD:
      return cost.forward;
    case v1::ACTION_KIND_BACKWARD:
      return cost.backward_input + cost.backward_weight;
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return cost.backward_input;
    case v1::ACTION_KIND_RECOMPUTE:
      return cost.recompute;
    default:
      return cost.backward_weight;
  }
}

}  // namespace stagecoach
