#include "common/skip_connections.h"

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/frozen_layers.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

absl::Status CheckOne(const v1::ModelGraph& graph, const v1::SkipConnection& connection) {
  const auto num_layers = static_cast<uint32_t>(graph.layers_size());
  const uint32_t from = connection.from_layer();
  const uint32_t to = connection.to_layer();
  if (from >= num_layers || to >= num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a skip connection from layer ", from, " to layer ", to, ": the model has ", num_layers));
  }
  const v1::LayerSpec& first = graph.layers(static_cast<int>(from));
  const v1::LayerSpec& last = graph.layers(static_cast<int>(to));
  const auto refuse = [&](const char* why) {
    return absl::InvalidArgumentError(
        absl::StrCat("a skip connection from ", first.name(), " to ", last.name(), ": ", why));
  };
  if (to <= from) return refuse("it must lead to a later layer");
  if (to - from < 2) return refuse("there is no layer between them to skip");
  if (first.cost().output_bytes() != graph.layers(static_cast<int>(to) - 1).cost().output_bytes()) {
    return refuse("what they would add has different sizes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSkipConnections(const v1::ModelGraph& graph) {
  std::set<uint32_t> starts, ends;
  for (const v1::SkipConnection& connection : graph.skip_connections()) {
    STAGECOACH_RETURN_IF_ERROR(CheckOne(graph, connection));
    if (!starts.empty() && *starts.rbegin() >= connection.from_layer()) {
      return absl::InvalidArgumentError(absl::StrCat("two skip connections start at ",
                                                     graph.layers(static_cast<int>(*starts.rbegin())).name(),
                                                     ", or they are not in the model's order"));
    }
    starts.insert(connection.from_layer());
    if (!ends.insert(connection.to_layer()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two skip connections end at ", graph.layers(static_cast<int>(connection.to_layer())).name()));
    }
  }
  return absl::OkStatus();
}

bool HasGradient(const v1::ModelGraph& graph, const v1::SkipConnection& connection) {
  return LowestTrainedLayer(graph) <= connection.from_layer();
}

std::vector<uint32_t> SkipConnectionsWithin(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer) {
  std::vector<uint32_t> within;
  for (int i = 0; i < graph.skip_connections_size(); ++i) {
    const v1::SkipConnection& connection = graph.skip_connections(i);
    if (connection.from_layer() >= first_layer && connection.to_layer() <= last_layer) {
      within.push_back(static_cast<uint32_t>(i));
    }
  }
  return within;
}

std::vector<SkipEdge> SkipEdgesOf(const v1::ModelGraph& graph, const v1::Plan& plan, bool trains) {
  std::vector<uint32_t> stage_of_layer(static_cast<size_t>(graph.layers_size()));
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    for (uint32_t layer = plan.stages(stage).first_layer(); layer <= plan.stages(stage).last_layer(); ++layer) {
      stage_of_layer[layer] = static_cast<uint32_t>(stage);
    }
  }
  std::map<std::tuple<bool, uint32_t, uint32_t>, std::vector<uint32_t>> connections_of;
  for (int i = 0; i < graph.skip_connections_size(); ++i) {
    const v1::SkipConnection& connection = graph.skip_connections(i);
    const uint32_t lower = stage_of_layer[connection.from_layer()];
    const uint32_t upper = stage_of_layer[connection.to_layer()];
    if (lower == upper) continue;
    const auto index = static_cast<uint32_t>(i);
    connections_of[{false, lower, upper}].push_back(index);
    if (trains && HasGradient(graph, connection)) connections_of[{true, upper, lower}].push_back(index);
  }
  std::vector<SkipEdge> edges;
  for (auto& [key, connections] : connections_of) {
    const auto& [is_gradient, from, to] = key;
    edges.push_back(
        {.from_stage = from, .to_stage = to, .is_gradient = is_gradient, .connections = std::move(connections)});
  }
  return edges;
}

}  // namespace stagecoach
