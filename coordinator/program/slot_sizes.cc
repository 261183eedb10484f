#include "coordinator/program/slot_sizes.h"

#include <algorithm>

#include "common/memory_layout.h"

namespace stagecoach {

SlotSizes SlotSizesOf(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer, bool forward_only) {
  constexpr uint64_t kTokenBytes = 4;
  SlotSizes sizes;
  sizes.load = 2 * AlignUp(graph.micro_batch_size() * graph.seq_len() * kTokenBytes);
  for (uint32_t layer = first_layer; layer <= last_layer; ++layer) {
    const v1::LayerCost& cost = graph.layers(static_cast<int>(layer)).cost();
    sizes.saved += AlignUp(cost.saved_bytes());
    sizes.shared += AlignUp(cost.input_bytes()) + AlignUp(cost.shared_bytes());
    sizes.pending += AlignUp(cost.output_bytes()) + AlignUp(cost.pending_bytes());
    sizes.scratch = std::max(sizes.scratch, AlignUp(cost.scratch_bytes()));
  }
  if (forward_only) sizes.pending = 0;
  return sizes;
}

}  // namespace stagecoach
