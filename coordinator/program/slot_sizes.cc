#include "coordinator/program/slot_sizes.h"

#include <algorithm>

#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"

namespace stagecoach {

SlotSizes SlotSizesOf(const v1::ModelGraph& graph, const StageLayers& layers, bool forward_only) {
  constexpr uint64_t kTokenBytes = 4;
  SlotSizes sizes;
  sizes.load = 2 * AlignUp(graph.micro_batch_size() * graph.seq_len() * kTokenBytes);
  for (uint32_t layer = layers.first; layer <= layers.last; ++layer) {
    const v1::LayerCost& cost = graph.layers(static_cast<int>(layer)).cost();
    const bool is_recomputed = std::binary_search(layers.recomputed.begin(), layers.recomputed.end(), layer);
    (is_recomputed ? sizes.recomputed : sizes.saved) += AlignUp(cost.saved_bytes());
    (is_recomputed ? sizes.remade : sizes.shared) += AlignUp(cost.shared_bytes());
    const LayerRole role = RoleOf(graph, layer);
    if (KeepsInput(role)) sizes.shared += AlignUp(cost.input_bytes());
    if (KeepsOutputGradient(role)) sizes.pending += AlignUp(cost.output_bytes()) + AlignUp(cost.pending_bytes());
    sizes.scratch = std::max(sizes.scratch, AlignUp(cost.scratch_bytes()));
  }
  for (const uint32_t connection : SkipConnectionsWithin(graph, layers.first, layers.last)) {
    const uint32_t from = graph.skip_connections(static_cast<int>(connection)).from_layer();
    sizes.scratch += AlignUp(graph.layers(static_cast<int>(from)).cost().output_bytes());
  }
  sizes.pending = sizes.remade + (forward_only ? 0 : sizes.pending);
  return sizes;
}

}  // namespace stagecoach
