#include "worker/profile/simulated_layer_profiler.h"

#include <algorithm>

#include "common/status_macros.h"
#include "worker/profile/timed_rounds.h"

namespace stagecoach {

absl::StatusOr<v1::LayerSeconds> SimulatedLayerProfiler::Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) {
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  const bool is_block = call.layer().kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
  const SimulatedCosts costs = is_block ? costs_ : SimulatedCosts();
  v1::LayerSeconds seconds;
  seconds.set_forward(std::max(costs.forward, kShortestCallSeconds));
  seconds.set_backward_input(std::max(costs.backward_input, kShortestCallSeconds));
  seconds.set_backward_weight(std::max(costs.backward_weight, kShortestCallSeconds));
  return seconds;
}

}  // namespace stagecoach
