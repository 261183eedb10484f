#include "common/skip_connections.h"

#include <gtest/gtest.h>

#include <utility>

namespace stagecoach {
namespace {

constexpr uint32_t kNumLayers = 8;

v1::ModelGraph GraphWith(const std::vector<std::pair<uint32_t, uint32_t>>& connections) {
  v1::ModelGraph graph;
  for (uint32_t layer = 0; layer < kNumLayers; ++layer) {
    v1::LayerSpec& spec = *graph.add_layers();
    spec.set_name("layer." + std::to_string(layer));
    spec.mutable_cost()->set_output_bytes(layer + 1 == kNumLayers ? 8 : 64);
  }
  for (const auto& [from, to] : connections) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
  return graph;
}

// Two layers a stage.
v1::Plan PlanOfPairs() {
  v1::Plan plan;
  for (uint32_t stage = 0; stage < kNumLayers / 2; ++stage) {
    v1::StagePlan& added = *plan.add_stages();
    added.set_first_layer(2 * stage);
    added.set_last_layer(2 * stage + 1);
  }
  return plan;
}

TEST(SkipConnectionsTest, NestedAndOverlappingOnesAreGood) {
  for (const auto& good : std::vector<std::vector<std::pair<uint32_t, uint32_t>>>{
           {}, {{0, 2}}, {{0, 7}, {1, 6}, {2, 5}}, {{1, 3}, {2, 5}, {3, 6}}}) {
    EXPECT_TRUE(CheckSkipConnections(GraphWith(good)).ok());
  }
}

TEST(SkipConnectionsTest, OthersAreRefusedByName) {
  const auto refusal = [](const std::vector<std::pair<uint32_t, uint32_t>>& connections) {
    return std::string(CheckSkipConnections(GraphWith(connections)).message());
  };
  EXPECT_EQ(refusal({{1, 8}}), "a skip connection from layer 1 to layer 8: the model has 8");
  EXPECT_EQ(refusal({{3, 3}}), "a skip connection from layer.3 to layer.3: it must lead to a later layer");
  EXPECT_EQ(refusal({{3, 1}}), "a skip connection from layer.3 to layer.1: it must lead to a later layer");
  EXPECT_EQ(refusal({{3, 4}}), "a skip connection from layer.3 to layer.4: there is no layer between them to skip");
  EXPECT_EQ(refusal({{1, 4}, {1, 5}}), "two skip connections start at layer.1, or they are not in the model's order");
  EXPECT_EQ(refusal({{2, 4}, {1, 5}}), "two skip connections start at layer.2, or they are not in the model's order");
  EXPECT_EQ(refusal({{1, 4}, {2, 4}}), "two skip connections end at layer.4");
  v1::ModelGraph graph = GraphWith({{1, 4}});
  graph.mutable_layers(1)->mutable_cost()->set_output_bytes(128);
  EXPECT_EQ(CheckSkipConnections(graph).message(),
            "a skip connection from layer.1 to layer.4: what they would add has different sizes");
}

TEST(SkipConnectionsTest, GradientsGoBackToWhatIsTrained) {
  v1::ModelGraph graph = GraphWith({{1, 4}, {2, 5}, {3, 6}});
  graph.mutable_layers(0)->set_frozen(true);
  graph.mutable_layers(1)->set_frozen(true);
  EXPECT_FALSE(HasGradient(graph, graph.skip_connections(0)));
  EXPECT_TRUE(HasGradient(graph, graph.skip_connections(1)));
  EXPECT_TRUE(HasGradient(graph, graph.skip_connections(2)));
}

TEST(SkipConnectionsTest, WithinAStageAreThoseOfItsLayers) {
  const v1::ModelGraph graph = GraphWith({{0, 7}, {1, 3}, {2, 5}, {3, 6}});
  EXPECT_EQ(SkipConnectionsWithin(graph, 0, 7), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(SkipConnectionsWithin(graph, 1, 5), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(SkipConnectionsWithin(graph, 4, 7), std::vector<uint32_t>());
}

TEST(SkipConnectionsTest, ConnectionsBetweenTwoStagesShareAnEdge) {
  // Stages: 0 1 | 2 3 | 4 5 | 6 7.
  v1::ModelGraph graph = GraphWith({{0, 6}, {1, 7}, {2, 4}, {3, 5}, {4, 7}});
  graph.mutable_skip_connections(4)->set_to_layer(6);
  graph.mutable_skip_connections(0)->set_to_layer(2);
  const std::vector<SkipEdge> down = {
      {0, 1, false, {0}}, {0, 3, false, {1}}, {1, 2, false, {2, 3}}, {2, 3, false, {4}}};
  EXPECT_EQ(SkipEdgesOf(graph, PlanOfPairs(), /*trains=*/false), down);
  std::vector<SkipEdge> both = down;
  both.insert(both.end(), {{1, 0, true, {0}}, {2, 1, true, {2, 3}}, {3, 0, true, {1}}, {3, 2, true, {4}}});
  EXPECT_EQ(SkipEdgesOf(graph, PlanOfPairs(), /*trains=*/true), both);
  for (int layer = 0; layer < 3; ++layer) graph.mutable_layers(layer)->set_frozen(true);
  std::vector<SkipEdge> pruned = down;
  pruned.insert(pruned.end(), {{2, 1, true, {3}}, {3, 2, true, {4}}});
  EXPECT_EQ(SkipEdgesOf(graph, PlanOfPairs(), /*trains=*/true), pruned);
}

}  // namespace
}  // namespace stagecoach
