#include "worker/profile/device_layer_profiler.h"

#include <memory>

#include "common/status_macros.h"
#include "worker/profile/lone_layer.h"
#include "worker/profile/timed_rounds.h"

namespace stagecoach {

absl::StatusOr<v1::LayerSeconds> DeviceLayerProfiler::Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) {
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<LoneLayer> layer,
                              LoneLayer::Create(context_.device, call, context_.memory_bytes));
  const TimedCalls calls = {.forward = [&] { return layer->Forward(); },
                            .backward_input = [&] { return layer->BackwardInput(); },
                            .backward_weight = [&] { return layer->BackwardWeight(); }};
  return MedianOfRounds(calls, context_.clock, may_go_on);
}

}  // namespace stagecoach
