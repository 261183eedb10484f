#include "common/frozen_layers.h"

#include <algorithm>

namespace stagecoach {

uint32_t LowestTrainedLayer(const v1::ModelGraph& graph) {
  const auto lowest = std::find_if(graph.layers().begin(), graph.layers().end(),
                                   [](const v1::LayerSpec& layer) { return !layer.frozen(); });
  return static_cast<uint32_t>(lowest - graph.layers().begin());
}

LayerRole RoleOf(const v1::ModelGraph& graph, uint32_t layer) {
  const uint32_t lowest = LowestTrainedLayer(graph);
  if (layer < lowest) return LayerRole::kForwardOnly;
  if (layer == lowest) return LayerRole::kLowestTrained;
  return graph.layers(static_cast<int>(layer)).frozen() ? LayerRole::kPassing : LayerRole::kTrained;
}

StageBackward BackwardOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer) {
  const uint32_t lowest = LowestTrainedLayer(graph);
  const auto first = graph.layers().begin() + static_cast<int>(first_layer);
  const auto last = graph.layers().begin() + static_cast<int>(last_layer);
  return {.input = lowest <= last_layer,
          .weight = std::any_of(first, last + 1, [](const v1::LayerSpec& layer) { return !layer.frozen(); }),
          .sends_gradient = lowest < first_layer};
}

}  // namespace stagecoach
