#ifndef STAGECOACH_COMMON_LAYER_SLOTS_H_
#define STAGECOACH_COMMON_LAYER_SLOTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/frozen_layers.h"
#include "common/layer_memory.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// What one layer of a graph adds to the slots of its stage, by what it has to do in the backward:
//   kTrained, kLowestTrained   saved    saved
//                              shared   AlignUp(input); shared
//                              pending  AlignUp(output), the gradient of its output; pending
//                              scratch  scratch
//   kPassing: no W             saved    saved; shared
//                              shared   AlignUp(input)
//                              scratch  scratch; pending
//   kForwardOnly               scratch  scratch; saved; shared
// Activations between layers that do not keep them, and gradients between layers that do not keep those, pass through
// two buffers in front of a layer's scratch, one for what it reads and one for what it writes. Behind the scratch of
// the lowest trained layer, if it is a block, lies the gradient of its residual, which others make in their input's
// gradient; the head saves its input's gradient for nobody when it is that layer.
struct LayerSlots {
  LayerRole role = LayerRole::kTrained;
  LayerMemoryBytes regions;  // of its calls
  // Multiples of kTensorAlignment.
  uint64_t saved = 0;
  uint64_t input = 0;            // in `shared`
  uint64_t shared = 0;           // likewise, behind the input
  uint64_t output_gradient = 0;  // in `pending`
  uint64_t pending = 0;          // likewise, behind the gradient
  uint64_t scratch = 0;          // the buffers included
  uint64_t transit = 0;          // each of the two buffers; 0: it needs none
};

// For full micro-batches. INVALID_ARGUMENT: as MemoryOfLayer. There is such a layer.
absl::StatusOr<LayerSlots> SlotsOfLayer(const v1::ModelGraph& graph, uint32_t layer, uint64_t element_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LAYER_SLOTS_H_
