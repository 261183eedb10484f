#ifndef STAGECOACH_WORKER_PROFILE_LAYER_PROFILER_H_
#define STAGECOACH_WORKER_PROFILE_LAYER_PROFILER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"

namespace stagecoach {

// Asked between two calls of a layer: an error ends what is being measured.
using MayGoOn = std::function<absl::Status()>;

// Tells what calls of one layer take, alone on a device. Used by one thread, the device's.
class LayerProfiler {
 public:
  virtual ~LayerProfiler() = default;
  // Builds the layer with random parameters, measures it and frees it. No time is 0: that says that a layer could not
  // be measured. INVALID_ARGUMENT, UNIMPLEMENTED: the device has no such layer. RESOURCE_EXHAUSTED: it does not fit the
  // memory. Errors of `may_go_on`.
  virtual absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) = 0;
};

// What a profiler works on; `device` and `clock` outlive it.
struct ProfilerContext {
  Device& device;
  const Clock& clock;
  uint64_t memory_bytes = 0;  // that it may use; 0: all that the device has
};
using LayerProfilerFactory = std::function<std::unique_ptr<LayerProfiler>(const ProfilerContext& context)>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_LAYER_PROFILER_H_
