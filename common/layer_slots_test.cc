#include "common/layer_slots.h"

#include <gtest/gtest.h>

#include <set>

#include "common/memory_layout.h"

namespace stagecoach {
namespace {

constexpr uint64_t kElementBytes = 4;

v1::LayerSpec& AddLayer(v1::LayerKind kind, v1::ModelGraph& graph) {
  v1::LayerSpec& layer = *graph.add_layers();
  layer.set_kind(kind);
  (*layer.mutable_sizes())["hidden_size"] = 6;
  (*layer.mutable_sizes())["num_attention_heads"] = 2;
  (*layer.mutable_sizes())["intermediate_size"] = 24;
  (*layer.mutable_sizes())["vocab_size"] = 100;
  return layer;
}

// Embedding, three blocks, norm, head.
v1::ModelGraph GraphWith(const std::set<int>& frozen) {
  v1::ModelGraph graph;
  AddLayer(v1::LAYER_KIND_TOKEN_EMBEDDING, graph);
  for (int block = 0; block < 3; ++block) AddLayer(v1::LAYER_KIND_TRANSFORMER_BLOCK, graph);
  AddLayer(v1::LAYER_KIND_LAYER_NORM, graph);
  AddLayer(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, graph);
  for (const int layer : frozen) graph.mutable_layers(layer)->set_frozen(true);
  graph.set_micro_batch_size(3);
  graph.set_seq_len(5);
  return graph;
}

LayerSlots SlotsOf(const v1::ModelGraph& graph, uint32_t layer) { return *SlotsOfLayer(graph, layer, kElementBytes); }
LayerMemoryBytes WholeOf(const v1::ModelGraph& graph, int layer) {
  return *MemoryOfLayer(graph.layers(layer), graph.micro_batch_size(), graph.seq_len(), kElementBytes);
}

TEST(LayerSlotsTest, ALayerOfAModelThatTrainsAllHasItsRegions) {
  const v1::ModelGraph graph = GraphWith({});
  for (int layer = 0; layer < graph.layers_size(); ++layer) {
    const LayerSlots slots = SlotsOf(graph, static_cast<uint32_t>(layer));
    const LayerMemoryBytes whole = WholeOf(graph, layer);
    EXPECT_EQ(slots.saved, whole.saved);
    EXPECT_EQ(slots.input, AlignUp(whole.input));
    EXPECT_EQ(slots.shared, whole.shared);
    EXPECT_EQ(slots.output_gradient, AlignUp(whole.output));
    EXPECT_EQ(slots.pending, whole.pending);
    EXPECT_EQ(slots.scratch, whole.scratch);
    EXPECT_EQ(slots.transit, 0u);
  }
}

TEST(LayerSlotsTest, BelowAllTrainedLayersNothingOutlivesACall) {
  const v1::ModelGraph graph = GraphWith({0, 1});
  for (const int layer : {0, 1}) {
    const LayerSlots slots = SlotsOf(graph, static_cast<uint32_t>(layer));
    const LayerMemoryBytes whole = WholeOf(graph, layer);
    EXPECT_EQ(slots.saved + slots.input + slots.shared + slots.output_gradient + slots.pending, 0u);
    EXPECT_EQ(slots.transit, AlignUp(whole.output));
    EXPECT_EQ(slots.scratch, 2 * slots.transit + whole.scratch + whole.saved + whole.shared);
  }
}

TEST(LayerSlotsTest, TheLowestTrainedLayerMakesNoGradientOfItsInput) {
  const v1::ModelGraph blocks = GraphWith({0, 1});
  const LayerMemoryBytes block = WholeOf(blocks, 2);
  EXPECT_EQ(SlotsOf(blocks, 2).scratch, block.scratch + AlignUp(block.input));
  EXPECT_EQ(SlotsOf(blocks, 2).saved, block.saved);
  EXPECT_EQ(SlotsOf(blocks, 3).scratch, block.scratch);
  const v1::ModelGraph head = GraphWith({0, 1, 2, 3, 4});
  EXPECT_EQ(SlotsOf(head, 5).saved, 0u);
  EXPECT_EQ(SlotsOf(head, 5).regions.saved, 0u);
  EXPECT_EQ(SlotsOf(head, 5).scratch, WholeOf(head, 5).scratch);
}

TEST(LayerSlotsTest, WhatGradientsPassThroughHoldsNothingAfterI) {
  const v1::ModelGraph graph = GraphWith({2});
  const LayerMemoryBytes block = WholeOf(graph, 2);
  const LayerSlots slots = SlotsOf(graph, 2);
  EXPECT_EQ(slots.saved, block.saved + block.shared);
  EXPECT_EQ(slots.input, AlignUp(block.input));
  EXPECT_EQ(slots.shared + slots.output_gradient + slots.pending, 0u);
  EXPECT_EQ(slots.transit, AlignUp(block.input));
  EXPECT_EQ(slots.scratch, 2 * slots.transit + block.scratch + block.pending);
  // The layer above writes into one of the buffers.
  EXPECT_EQ(SlotsOf(graph, 3).scratch, 2 * slots.transit + block.scratch);
  EXPECT_EQ(SlotsOf(graph, 3).pending, block.pending);
  EXPECT_EQ(SlotsOf(graph, 1).scratch, block.scratch);
}

TEST(LayerSlotsTest, AStageRecomputesNoLayerThatKeepsNothing) {
  const v1::ModelGraph graph = GraphWith({0, 1, 3});
  EXPECT_FALSE(MemoryOfStage(graph, {0, 3, {1}}, kElementBytes).ok());
  const auto stage = MemoryOfStage(graph, {0, 3, {2, 3}}, kElementBytes);
  ASSERT_TRUE(stage.ok()) << stage.status();
  const LayerMemoryBytes block = WholeOf(graph, 2);
  EXPECT_EQ(stage->saved, 0u);
  EXPECT_EQ(stage->shared, 2 * AlignUp(block.input));
  EXPECT_EQ(stage->remade, block.shared);
  EXPECT_EQ(stage->recomputed, 2 * block.saved + block.shared);
  EXPECT_EQ(stage->pending, block.shared + AlignUp(block.output) + block.pending);
}

}  // namespace
}  // namespace stagecoach
