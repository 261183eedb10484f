#ifndef STAGECOACH_WORKER_PROFILE_DEVICE_LAYER_PROFILER_H_
#define STAGECOACH_WORKER_PROFILE_DEVICE_LAYER_PROFILER_H_

#include "absl/status/statusor.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/profile/layer_profiler.h"

namespace stagecoach {

// Measures layers of the real kind on the device that they would train on: of small ones several, in turn, as the
// layers of a stage take turns, since one alone would find everything in the caches.
class DeviceLayerProfiler final : public LayerProfiler {
 public:
  explicit DeviceLayerProfiler(const ProfilerContext& context) : context_(context) {}
  // Also INTERNAL: the device has failed, or does not complete.
  absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) override;

 private:
  const ProfilerContext context_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_DEVICE_LAYER_PROFILER_H_
