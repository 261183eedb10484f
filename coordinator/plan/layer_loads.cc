#include "coordinator/plan/layer_loads.h"

#include "absl/status/statusor.h"
#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "coordinator/program/slot_sizes.h"
#include "coordinator/program/tied_tensor.h"

namespace stagecoach {

std::vector<LayerLoad> LayerLoadsOf(const v1::ModelGraph& graph, const StateOptions& state) {
  std::vector<LayerLoad> loads;
  for (int i = 0; i < graph.layers_size(); ++i) {
    const auto layer = static_cast<uint32_t>(i);
    const v1::LayerCost& cost = graph.layers(i).cost();
    const StageElements elements = ElementsOfStage(graph, layer, layer);
    const LayerRole role = RoleOf(graph, layer);
    LayerLoad load;
    load.is_block = graph.layers(i).kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
    load.state_bytes = (elements.values + elements.accumulators) * kParameterBytes +
                       elements.trained_values * state.optimizer_bytes_per_element;
    if (state.takes_snapshots) load.state_bytes += SnapshotBytes(elements, state);
    if (KeepsInput(role)) load.input_bytes = AlignUp(cost.input_bytes());
    load.saved_bytes = AlignUp(cost.saved_bytes());
    load.shared_bytes = AlignUp(cost.shared_bytes());
    if (KeepsOutputGradient(role)) load.pending_bytes = AlignUp(cost.output_bytes()) + AlignUp(cost.pending_bytes());
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
  const uint64_t moment_bytes = (*tied)->is_trained ? state.optimizer_bytes_per_element : 0;
  return TiedLayers{.owner_layer = (*tied)->owner_layer,
                    .later_layer = (*tied)->later_layer,
                    .together_bytes = elements * (kParameterBytes + moment_bytes),
                    // One slot to send its accumulator from, one to receive the other's.
                    .apart_bytes = (*tied)->is_trained ? 2 * AlignUp((*tied)->bytes) : 0};
}

std::vector<SkipLoad> SkipLoadsOf(const v1::ModelGraph& graph) {
  std::vector<SkipLoad> loads;
  for (const v1::SkipConnection& connection : graph.skip_connections()) {
    const v1::LayerCost& cost = graph.layers(static_cast<int>(connection.from_layer())).cost();
    loads.push_back({.from_layer = connection.from_layer(),
                     .to_layer = connection.to_layer(),
                     .bytes = AlignUp(cost.output_bytes()),
                     .has_gradient = HasGradient(graph, connection)});
  }
  return loads;
}

uint64_t LoadBytesOf(const v1::ModelGraph& graph) { return SlotSizesOf(graph, {0, 0}, false).load; }

}  // namespace stagecoach
