#include "common/frozen_layers.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace stagecoach {
namespace {

constexpr uint32_t kNumLayers = 6;

v1::ModelGraph GraphWith(const std::set<uint32_t>& frozen) {
  v1::ModelGraph graph;
  for (uint32_t layer = 0; layer < kNumLayers; ++layer) graph.add_layers()->set_frozen(frozen.contains(layer));
  return graph;
}

std::vector<LayerRole> RolesOf(const v1::ModelGraph& graph) {
  std::vector<LayerRole> roles;
  for (uint32_t layer = 0; layer < kNumLayers; ++layer) roles.push_back(RoleOf(graph, layer));
  return roles;
}

TEST(FrozenLayersTest, WithoutFrozenLayersTheFirstIsTheLowestTrained) {
  const v1::ModelGraph graph = GraphWith({});
  EXPECT_EQ(LowestTrainedLayer(graph), 0u);
  EXPECT_EQ(RoleOf(graph, 0), LayerRole::kLowestTrained);
  for (uint32_t layer = 1; layer < kNumLayers; ++layer) EXPECT_EQ(RoleOf(graph, layer), LayerRole::kTrained);
  EXPECT_EQ(BackwardOfStage(graph, 0, 2), (StageBackward{.input = true, .weight = true, .sends_gradient = false}));
  EXPECT_EQ(BackwardOfStage(graph, 3, 5), (StageBackward{.input = true, .weight = true, .sends_gradient = true}));
}

TEST(FrozenLayersTest, RolesFollowFromTheLowestTrainedLayer) {
  using enum LayerRole;
  EXPECT_EQ(RolesOf(GraphWith({0, 1, 3, 5})),
            (std::vector<LayerRole>{kForwardOnly, kForwardOnly, kLowestTrained, kPassing, kTrained, kPassing}));
  EXPECT_EQ(RolesOf(GraphWith({1, 2, 3, 4, 5})),
            (std::vector<LayerRole>{kLowestTrained, kPassing, kPassing, kPassing, kPassing, kPassing}));
  EXPECT_EQ(LowestTrainedLayer(GraphWith({0, 1, 2, 3, 4, 5})), kNumLayers);
}

// Every set of frozen layers and every stage, by what the words say.
TEST(FrozenLayersTest, AStageHasWhatItsLayersNeed) {
  for (uint32_t set = 0; set < 1u << kNumLayers; ++set) {
    v1::ModelGraph graph;
    for (uint32_t layer = 0; layer < kNumLayers; ++layer) graph.add_layers()->set_frozen((set >> layer & 1u) != 0);
    for (uint32_t first = 0; first < kNumLayers; ++first) {
      for (uint32_t last = first; last < kNumLayers; ++last) {
        const auto trains = [&](uint32_t from, uint32_t end) {
          for (uint32_t layer = from; layer < end; ++layer) {
            if (!graph.layers(static_cast<int>(layer)).frozen()) return true;
          }
          return false;
        };
        const StageBackward backward = BackwardOfStage(graph, first, last);
        EXPECT_EQ(backward.input, trains(0, last + 1));
        EXPECT_EQ(backward.weight, trains(first, last + 1));
        EXPECT_EQ(backward.sends_gradient, trains(0, first));
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach
