#ifndef STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Bytes of one slot of each lifetime of a stage, and of its scratch: the layout that worker/model/stage.h carves. A
// worker computes the same numbers and refuses a program that differs.
struct SlotSizes {
  uint64_t load = 0;     // tokens, then labels; both have room on either stage that loads
  uint64_t saved = 0;    // saved region of every layer but the recomputed ones
  uint64_t shared = 0;   // input of every layer that keeps it, and shared region of every one but the recomputed ones
  uint64_t remade = 0;   // shared region of every recomputed layer: the front of a pending slot, which F and R write
  uint64_t pending = 0;  // that, then output gradient and pending region of every trained layer; that alone when
                         // forward-only
  uint64_t recomputed = 0;  // saved region of every recomputed layer
  uint64_t scratch = 0;     // of the layer that needs most, then a tensor of every skip connection within the stage
};

struct StageLayers {
  uint32_t first = 0;
  uint32_t last = 0;
  std::span<const uint32_t> recomputed = {};  // ascending
};
SlotSizes SlotSizesOf(const v1::ModelGraph& graph, const StageLayers& layers, bool forward_only);

// Layers of a stage, of its plan or of its program; refers to the message.
template <typename StageMessage>
StageLayers LayersOf(const StageMessage& stage) {
  const auto& recomputed = stage.recomputed_layers();
  return {stage.first_layer(), stage.last_layer(), {recomputed.data(), static_cast<size_t>(recomputed.size())}};
}

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SLOT_SIZES_H_
