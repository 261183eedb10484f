#include "coordinator/plan/layer_loads.h"

#include "absl/status/statusor.h"
#include "common/memory_layout.h"
#include "coordinator/program/slot_sizes.h"
#include "coordinator/program/tied_tensor.h"

namespace stagecoach {

std::vector<LayerLoad> LayerLoadsOf(const v1::ModelGraph& graph, const StateOptions& state) {
  std::vector<LayerLoad> loads;
  for (int i = 0; i < graph.layers_size(); ++i) {
    const auto layer = static_cast<uint32_t>(i);
    const v1::LayerCost& cost = graph.layers(i).cost();
    const StageElements elements = ElementsOfStage(graph, layer, layer);
    LayerLoad load;
    load.is_block = graph.layers(i).kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
    load.state_bytes = elements.values * (kParameterBytes + state.optimizer_bytes_per_element) +
                       elements.accumulators * kParameterBytes;
    if (state.takes_snapshots) {
      load.state_bytes += elements.owned_values * (kParameterBytes + state.optimizer_bytes_per_element);
    }
    load.input_bytes = AlignUp(cost.input_bytes());
    load.saved_bytes = AlignUp(cost.saved_bytes());
    load.shared_bytes = AlignUp(cost.shared_bytes());
    load.pending_bytes = AlignUp(cost.output_bytes()) + AlignUp(cost.pending_bytes());
    load.scratch_bytes = AlignUp(cost.scratch_bytes());
    load.boundary_bytes = AlignUp(cost.output_bytes());
    loads.push_back(load);
  }
  return loads;
}

std::optional<TiedLayers> TiedLayersOf(const v1::ModelGraph& graph, const StateOptions& state) {
  const absl::StatusOr<std::optional<TiedTensor>> tied = FindTiedTensor(graph);
  if (!tied.ok() || !tied->has_value()) return std::nullopt;
  const uint64_t elements = (*tied)->bytes / kParameterBytes;
  return TiedLayers{.owner_layer = (*tied)->owner_layer,
                    .later_layer = (*tied)->later_layer,
                    .together_bytes = elements * (kParameterBytes + state.optimizer_bytes_per_element),
                    // One slot to send its accumulator from, one to receive the other's.
                    .apart_bytes = 2 * AlignUp((*tied)->bytes)};
}

uint64_t LoadBytesOf(const v1::ModelGraph& graph) { return SlotSizesOf(graph, {0, 0}, false).load; }

}  // namespace stagecoach
