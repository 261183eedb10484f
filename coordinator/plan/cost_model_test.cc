#include "coordinator/plan/cost_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

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

}  // namespace
}  // namespace stagecoach
