#include "coordinator/plan/cost_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

v1::LayerSpec& AddLayer(v1::ModelGraph& graph, v1::LayerKind kind, double flops) {
  v1::LayerSpec& layer = *graph.add_layers();
  layer.set_kind(kind);
  (*layer.mutable_sizes())["hidden_size"] = 64;
  layer.mutable_cost()->set_forward_flops(flops);
  layer.mutable_cost()->set_backward_input_flops(flops);
  layer.mutable_cost()->set_backward_weight_flops(flops);
  return layer;
}

class CostModelTest : public testing::Test {
 protected:
  CostModelTest() {
    graph_.set_micro_batch_size(4);
    graph_.set_seq_len(8);
    AddLayer(graph_, v1::LAYER_KIND_TRANSFORMER_BLOCK, 100);
    AddLayer(graph_, v1::LAYER_KIND_TRANSFORMER_BLOCK, 100);
    AddLayer(graph_, v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, 50);
    worker_.flops_per_second = 100;
    worker_.seconds_per_call = 0;
  }
  void Measure(int layer, const LayerSeconds& seconds) {
    costs_.Add(LayerShape(graph_.layers(layer), 8), 4, seconds);
    worker_.measured = std::make_shared<const LayerCosts>(costs_);
  }

  v1::ModelGraph graph_;
  WorkerProfile worker_;
  LayerCosts costs_;
};

TEST_F(CostModelTest, WithoutMeasurementsTimesAreOfFlops) {
  const ModelSeconds seconds = KnownSeconds(graph_, worker_);
  EXPECT_FALSE(seconds.all_measured);
  EXPECT_EQ(seconds.layers[0], (LayerSeconds{1, 1, 1}));
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{0.5, 0.5, 0.5}));
}

TEST_F(CostModelTest, LayersOfOneShapeTakeWhatWasMeasuredOnce) {
  Measure(0, {3, 4, 5});
  Measure(2, {7, 0.25, 9});
  const ModelSeconds seconds = KnownSeconds(graph_, worker_);
  EXPECT_TRUE(seconds.all_measured);
  EXPECT_EQ(seconds.layers[0], (LayerSeconds{3, 4, 5}));
  EXPECT_EQ(seconds.layers[1], (LayerSeconds{3, 4, 5}));
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{7, 0.25, 9}));
}

TEST_F(CostModelTest, LayersThatWereNotMeasuredRunAtTheRateOfThoseThatWere) {
  Measure(0, {2, 4, 6});  // four times as long as by FLOPs
  const ModelSeconds seconds = KnownSeconds(graph_, worker_);
  EXPECT_FALSE(seconds.all_measured);
  EXPECT_EQ(seconds.layers[1], (LayerSeconds{2, 4, 6}));
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{2, 2, 2}));
}

TEST_F(CostModelTest, OfFrozenLayersWhatIsLeftOfThemIsTaken) {
  AddLayer(graph_, v1::LAYER_KIND_LAYER_NORM, 1);
  graph_.mutable_layers()->SwapElements(2, 3);  // block, block, norm, head
  Measure(0, {3, 4, 5});
  Measure(2, {1, 2, 3});
  Measure(3, {8, 1, 9});
  graph_.mutable_layers(0)->set_frozen(true);
  graph_.mutable_layers(2)->set_frozen(true);
  ModelSeconds seconds = KnownSeconds(graph_, worker_);
  EXPECT_TRUE(seconds.all_measured);
  EXPECT_EQ(seconds.layers[0], (LayerSeconds{3, 0, 0}));
  EXPECT_EQ(seconds.layers[1], (LayerSeconds{3, 4, 5}));
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{1, 2, 0}));
  EXPECT_EQ(seconds.layers[3], (LayerSeconds{8, 1, 9}));
  graph_.mutable_layers(1)->set_frozen(true);
  seconds = KnownSeconds(graph_, worker_);
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{1, 0, 0}));
  // The head alone makes no gradient of its input.
  EXPECT_EQ(seconds.layers[3], (LayerSeconds{4, 0, 9}));
}

// As when a worker had no time for the rest.
TEST_F(CostModelTest, AFewLayersSayNothingAboutTheRateOfTheOthers) {
  Measure(2, {500, 500, 500});  // a fifth of the model
  const ModelSeconds seconds = KnownSeconds(graph_, worker_);
  EXPECT_EQ(seconds.layers[2], (LayerSeconds{500, 500, 500}));
  EXPECT_EQ(seconds.layers[0], (LayerSeconds{1, 1, 1}));
}

TEST_F(CostModelTest, CostsOfOneOtherMicroBatchSizeSayNothingAndOfTwoTheyDo) {
  Measure(0, {2, 4, 6});
  graph_.set_micro_batch_size(6);
  EXPECT_EQ(KnownSeconds(graph_, worker_).layers[0], (LayerSeconds{1, 1, 1}));
  costs_.Add(LayerShape(graph_.layers(0), 8), 8, {4, 8, 10});
  worker_.measured = std::make_shared<const LayerCosts>(costs_);
  EXPECT_EQ(KnownSeconds(graph_, worker_).layers[0], (LayerSeconds{3, 6, 8}));
}

v1::ModelGraph GraphWithSkips(const std::vector<std::pair<uint32_t, uint32_t>>& connections) {
  v1::ModelGraph graph;
  for (int layer = 0; layer < 8; ++layer) {
    AddLayer(graph, v1::LAYER_KIND_TRANSFORMER_BLOCK, 1).mutable_cost()->set_output_bytes(1000);
  }
  for (const auto& [from, to] : connections) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
  return graph;
}

std::string TextOf(const std::vector<SkipCost>& costs) {
  std::string text;
  for (const SkipCost& cost : costs) {
    absl::StrAppend(&text, cost.from_stage, ">", cost.to_stage, " ", cost.seconds, cost.has_gradient ? " and back" : "",
                    "; ");
  }
  return text;
}

const StagePartition kPairs = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};

TEST(SkipCostsTest, ConnectionsBetweenTwoStagesShareATransfer) {
  EXPECT_EQ(TextOf(SkipCosts(GraphWithSkips({}), kPairs, 1024)), "");
  // 1000 bytes are padded to 1024; 4 to 6 is beside the edge of the chain.
  EXPECT_EQ(TextOf(SkipCosts(GraphWithSkips({{0, 7}, {1, 6}, {2, 5}, {4, 6}}), kPairs, 1024)),
            "0>3 2 and back; 1>2 1 and back; 2>3 1 and back; ");
  EXPECT_EQ(TextOf(SkipCosts(GraphWithSkips({{0, 7}, {2, 5}}), {{0, 6}, {7, 7}}, 512)), "0>1 2 and back; ");
  EXPECT_EQ(TextOf(SkipCosts(GraphWithSkips({{0, 7}, {2, 5}}), {{0, 7}}, 1024)), "");
}

TEST(SkipCostsTest, BelowAllThatIsTrainedThereIsNoGradient) {
  v1::ModelGraph graph = GraphWithSkips({{0, 7}, {1, 6}, {2, 5}});
  graph.mutable_layers(0)->set_frozen(true);
  EXPECT_EQ(TextOf(SkipCosts(graph, kPairs, 1024)), "0>3 2 and back; 1>2 1 and back; ");
  graph.mutable_layers(1)->set_frozen(true);
  EXPECT_EQ(TextOf(SkipCosts(graph, kPairs, 1024)), "0>3 2; 1>2 1 and back; ");
}

}  // namespace
}  // namespace stagecoach
