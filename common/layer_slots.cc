#include "common/layer_slots.h"

#include "common/memory_layout.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Of the activation that enters or leaves the layer: they are of one size but where tokens enter and the loss leaves.
uint64_t ActivationBytes(const v1::LayerSpec& layer, const LayerMemoryBytes& regions) {
  return AlignUp(layer.kind() == v1::LAYER_KIND_TOKEN_EMBEDDING ? regions.output : regions.input);
}

bool UsesTransit(const v1::ModelGraph& graph, uint32_t layer, LayerRole role) {
  if (!KeepsOutputGradient(role)) return true;
  return layer > 0 && RoleOf(graph, layer - 1) == LayerRole::kPassing;
}

}  // namespace

absl::StatusOr<LayerSlots> SlotsOfLayer(const v1::ModelGraph& graph, uint32_t layer, uint64_t element_bytes) {
  const v1::LayerSpec& spec = graph.layers(static_cast<int>(layer));
  LayerSlots slots{.role = RoleOf(graph, layer), .regions = {}};
  STAGECOACH_ASSIGN_OR_RETURN(slots.regions,
                              MemoryOfLayer(spec, graph.micro_batch_size(), graph.seq_len(), element_bytes));
  LayerMemoryBytes& regions = slots.regions;
  if (slots.role == LayerRole::kLowestTrained) {
    if (spec.kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK) regions.scratch += AlignUp(regions.input);
    if (spec.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD) regions.saved = 0;
  }
  if (UsesTransit(graph, layer, slots.role)) slots.transit = ActivationBytes(spec, regions);
  slots.scratch = 2 * slots.transit + regions.scratch;
  if (KeepsInput(slots.role)) slots.input = AlignUp(regions.input);
  if (KeepsOutputGradient(slots.role)) {
    slots.saved = regions.saved;
    slots.shared = regions.shared;
    slots.output_gradient = AlignUp(regions.output);
    slots.pending = regions.pending;
  } else if (slots.role == LayerRole::kPassing) {
    slots.saved = regions.saved + regions.shared;
    slots.scratch += regions.pending;
  } else {
    slots.scratch += regions.saved + regions.shared;
  }
  return slots;
}

}  // namespace stagecoach
