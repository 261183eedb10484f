#ifndef STAGECOACH_WORKER_MODEL_LAYER_FACTORY_H_
#define STAGECOACH_WORKER_MODEL_LAYER_FACTORY_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/device/device.h"
#include "worker/model/layer.h"

namespace stagecoach {

// What every layer is built from.
struct LayerContext {
  Device& device;
  LayerIndex index;                       // position in the model graph
  std::span<const Parameter> parameters;  // in the order of the LayerSpec; outlive the layer
  uint64_t seed = 0;                      // of dropout: the job's
};

// The layer that `spec` describes, on the context's device. INVALID_ARGUMENT: an unknown kind; a size, scalar or
// parameter that is missing or does not fit. UNIMPLEMENTED: the device cannot run it.
absl::StatusOr<std::unique_ptr<Layer>> BuildLayer(const v1::LayerSpec& spec, const LayerContext& context);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYER_FACTORY_H_
