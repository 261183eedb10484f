#ifndef STAGECOACH_WORKER_PROFILE_SIMULATED_LAYER_PROFILER_H_
#define STAGECOACH_WORKER_PROFILE_SIMULATED_LAYER_PROFILER_H_

#include "absl/status/statusor.h"
#include "common/simulated_device.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/profile/layer_profiler.h"

namespace stagecoach {

// Says at once what a SimulatedStage of these costs takes: a transformer block its seconds, whatever the size of a full
// micro-batch, and any other layer nothing.
class SimulatedLayerProfiler final : public LayerProfiler {
 public:
  explicit SimulatedLayerProfiler(const SimulatedCosts& costs) : costs_(costs) {}
  absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) override;

 private:
  const SimulatedCosts costs_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_SIMULATED_LAYER_PROFILER_H_
