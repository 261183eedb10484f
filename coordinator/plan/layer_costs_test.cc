#include "coordinator/plan/layer_costs.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

v1::LayerSpec Block() {
  v1::LayerSpec layer;
  layer.set_name("transformer.h.3");
  layer.set_kind(v1::LAYER_KIND_TRANSFORMER_BLOCK);
  (*layer.mutable_sizes())["num_attention_heads"] = 2;
  (*layer.mutable_sizes())["hidden_size"] = 64;
  (*layer.mutable_sizes())["intermediate_size"] = 256;
  (*layer.mutable_scalars())["layer_norm_epsilon"] = 1e-5;
  (*layer.mutable_scalars())["attn_pdrop"] = 0;
  (*layer.mutable_scalars())["resid_pdrop"] = 0;
  return layer;
}

// Journals keep these: a change makes all that was measured unknown.
TEST(LayerShapeTest, IsCanonical) {
  EXPECT_EQ(LayerShape(Block(), 128),
            "transformer_block hidden_size=64 intermediate_size=256 num_attention_heads=2 seq_len=128");
}

TEST(LayerShapeTest, HasTheDropoutsThatAreOnAndNotTheirProbabilities) {
  v1::LayerSpec layer = Block();
  (*layer.mutable_scalars())["resid_pdrop"] = 0.1;
  (*layer.mutable_scalars())["attn_pdrop"] = 0.2;
  EXPECT_EQ(LayerShape(layer, 8),
            "transformer_block hidden_size=64 intermediate_size=256 num_attention_heads=2 seq_len=8 "
            "dropout=attn_pdrop,resid_pdrop");
  v1::LayerSpec other = layer;
  (*other.mutable_scalars())["attn_pdrop"] = 0.5;
  EXPECT_EQ(LayerShape(other, 8), LayerShape(layer, 8));
}

TEST(LayerShapeTest, NamesAndValuesDoNotCount) {
  v1::LayerSpec layer = Block();
  layer.set_name("transformer.h.4");
  (*layer.mutable_scalars())["layer_norm_epsilon"] = 1e-6;
  layer.add_parameters()->set_name("x");
  EXPECT_EQ(LayerShape(layer, 128), LayerShape(Block(), 128));
}

TEST(LayerShapeTest, SizesAndKindDo) {
  v1::LayerSpec wider = Block();
  (*wider.mutable_sizes())["hidden_size"] = 128;
  v1::LayerSpec norm = Block();
  norm.set_kind(v1::LAYER_KIND_LAYER_NORM);
  EXPECT_NE(LayerShape(wider, 128), LayerShape(Block(), 128));
  EXPECT_NE(LayerShape(norm, 128), LayerShape(Block(), 128));
  EXPECT_NE(LayerShape(Block(), 64), LayerShape(Block(), 128));
}

TEST(LayerCostsTest, FindsWhatWasAddedAndNothingElse) {
  LayerCosts costs;
  costs.Add("block", 4, {1, 2, 3});
  ASSERT_NE(costs.Find("block", 4), nullptr);
  EXPECT_EQ(*costs.Find("block", 4), (LayerSeconds{1, 2, 3}));
  EXPECT_EQ(costs.Find("block", 2), nullptr);
  EXPECT_EQ(costs.Find("head", 4), nullptr);
}

TEST(LayerCostsTest, TheFirstTimeStays) {
  LayerCosts costs;
  costs.Add("block", 4, {1, 2, 3});
  costs.Add("block", 4, {9, 9, 9});
  EXPECT_EQ(*costs.Find("block", 4), (LayerSeconds{1, 2, 3}));
}

TEST(LayerCostsTest, EstimatesOnLinesThroughTheSizesAround) {
  LayerCosts costs;
  costs.Add("block", 1, {1, 10, 0});
  costs.Add("block", 5, {3, 30, 4});
  costs.Add("block", 9, {7, 30, 4});
  EXPECT_EQ(costs.Estimate("block", 5), (LayerSeconds{3, 30, 4}));
  EXPECT_EQ(costs.Estimate("block", 3), (LayerSeconds{2, 20, 2}));
  EXPECT_EQ(costs.Estimate("block", 7), (LayerSeconds{5, 30, 4}));
  EXPECT_EQ(costs.Estimate("block", 13), (LayerSeconds{11, 30, 4}));  // beyond the last two
}

TEST(LayerCostsTest, NoEstimateIsLessThanNothing) {
  LayerCosts costs;
  costs.Add("block", 4, {1, 1, 1});
  costs.Add("block", 8, {3, 1, 1});
  EXPECT_EQ(costs.Estimate("block", 1), (LayerSeconds{0, 1, 1}));
}

TEST(LayerCostsTest, OneSizeTellsNothingAboutOthers) {
  LayerCosts costs;
  costs.Add("block", 4, {1, 2, 3});
  EXPECT_EQ(costs.Estimate("block", 8), std::nullopt);
  EXPECT_EQ(costs.Estimate("head", 4), std::nullopt);
}

}  // namespace
}  // namespace stagecoach
