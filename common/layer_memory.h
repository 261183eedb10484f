#ifndef STAGECOACH_COMMON_LAYER_MEMORY_H_
#define STAGECOACH_COMMON_LAYER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Rows of the head's logits that exist at a time in the forward pass, and columns (of the vocabulary) in the weight
// gradient: the full logits are never stored. Functions of the shape only, or the bits would depend on free memory.
// Both keep rows x columns near 2^24 (64 MiB of f32), and at least 64 of what they count.
int64_t HeadForwardRows(int64_t rows, int64_t vocab_size);
int64_t HeadWeightColumns(int64_t rows, int64_t vocab_size);

// Bytes of one micro-batch in one layer, by lifetime (see LayerCost in plan.proto); each tensor in a region starts at a
// multiple of kTensorAlignment. The coordinator plans with it and the worker carves by it: one function, so that both
// agree. The layout of each region is drawn in the source. A micro-batch with fewer samples needs no more of any of
// them.
struct LayerMemoryBytes {
  // Multiples of kTensorAlignment.
  uint64_t saved = 0;
  uint64_t shared = 0;
  uint64_t pending = 0;
  uint64_t scratch = 0;
  // Not rounded.
  uint64_t input = 0;   // of the layer's input, tokens for the first layer
  uint64_t output = 0;  // of the activation it makes; of one f64 for the head
};

// `element_bytes`: 4 on devices that compute in f32, 8 on the reference device. Reads spec.kind and spec.sizes.
// INVALID_ARGUMENT: a size is missing, or a product overflows.
absl::StatusOr<LayerMemoryBytes> MemoryOfLayer(const v1::LayerSpec& spec, uint64_t samples, uint64_t seq_len,
                                               uint64_t element_bytes);

// Bytes of one slot of each lifetime of a stage, and of its scratch region. A slot is its layers' regions, one layer
// after another, as common/layer_slots.h says of each (where nothing is frozen: all that is here):
//   saved       per layer that is not recomputed: saved
//   shared      per layer: AlignUp(input), a copy of the layer's input; shared, unless it is recomputed
//   pending     per recomputed layer: shared
//               per layer: AlignUp(output), the gradient of its output (the head's is not used); pending
//   recomputed  per recomputed layer: saved
//   scratch     the largest of its layers; AlignUp(output) of the first layer of each skip connection within the stage
struct StageMemoryBytes {
  uint64_t saved = 0;
  uint64_t shared = 0;
  uint64_t remade = 0;  // of `pending`, the part of the recomputed layers, which is all that F needs of it
  uint64_t pending = 0;
  uint64_t recomputed = 0;
  uint64_t scratch = 0;
  uint64_t held = 0;  // of `scratch`, the end, where tensors of skip connections wait
};

// The layers of a stage, in a graph.
struct StageExtent {
  uint32_t first_layer = 0;
  uint32_t last_layer = 0;
  std::vector<uint32_t> recomputed_layers = {};  // ascending
  bool Recomputes(uint32_t layer) const;
};

// For full micro-batches. INVALID_ARGUMENT: as MemoryOfLayer and CheckSkipConnections, there are no such layers, or
// those that are recomputed are not blocks of the stage, in order.
absl::StatusOr<StageMemoryBytes> MemoryOfStage(const v1::ModelGraph& graph, const StageExtent& extent,
                                               uint64_t element_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LAYER_MEMORY_H_
