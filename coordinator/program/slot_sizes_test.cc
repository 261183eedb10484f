#include "coordinator/program/slot_sizes.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/frozen_layers.h"
#include "common/layer_memory.h"
#include "common/layer_slots.h"
#include "common/skip_connections.h"

namespace stagecoach {
namespace {

constexpr uint64_t kElementBytes = 4;

using Layers = std::vector<uint32_t>;
using Skips = std::vector<std::pair<uint32_t, uint32_t>>;

v1::LayerSpec& AddLayer(v1::LayerKind kind, v1::ModelGraph& graph) {
  v1::LayerSpec& layer = *graph.add_layers();
  layer.set_kind(kind);
  (*layer.mutable_sizes())["hidden_size"] = 6;
  (*layer.mutable_sizes())["num_attention_heads"] = 2;
  (*layer.mutable_sizes())["intermediate_size"] = 24;
  (*layer.mutable_sizes())["vocab_size"] = 100;
  return layer;
}

// Embedding, four blocks, norm, head, with the costs that a job's graph has.
v1::ModelGraph GraphWith(const Layers& frozen, const Skips& skips) {
  v1::ModelGraph graph;
  AddLayer(v1::LAYER_KIND_TOKEN_EMBEDDING, graph);
  for (int block = 0; block < 4; ++block) AddLayer(v1::LAYER_KIND_TRANSFORMER_BLOCK, graph);
  AddLayer(v1::LAYER_KIND_LAYER_NORM, graph);
  AddLayer(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, graph);
  graph.set_micro_batch_size(3);
  graph.set_seq_len(5);
  for (const uint32_t layer : frozen) graph.mutable_layers(static_cast<int>(layer))->set_frozen(true);
  for (const auto& [from, to] : skips) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
  for (int layer = 0; layer < graph.layers_size(); ++layer) {
    const LayerSlots slots = *SlotsOfLayer(graph, static_cast<uint32_t>(layer), kElementBytes);
    v1::LayerCost& cost = *graph.mutable_layers(layer)->mutable_cost();
    cost.set_saved_bytes(slots.saved);
    cost.set_shared_bytes(slots.shared);
    cost.set_pending_bytes(slots.pending);
    cost.set_scratch_bytes(slots.scratch);
    cost.set_input_bytes(slots.regions.input);
    cost.set_output_bytes(slots.regions.output);
  }
  return graph;
}

Layers BlocksOf(const v1::ModelGraph& graph, uint32_t first, uint32_t last) {
  Layers blocks;
  for (uint32_t layer = first; layer <= last; ++layer) {
    const bool is_block = graph.layers(static_cast<int>(layer)).kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
    if (is_block && RoleOf(graph, layer) != LayerRole::kForwardOnly) blocks.push_back(layer);
  }
  return blocks;
}

void ExpectSameAsAWorker(const v1::ModelGraph& graph, uint32_t first, uint32_t last, const Layers& recomputed) {
  SCOPED_TRACE(testing::Message() << "layers " << first << " to " << last << ", recomputed "
                                  << testing::PrintToString(recomputed));
  const absl::StatusOr<StageMemoryBytes> worker = MemoryOfStage(graph, {first, last, recomputed}, kElementBytes);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const SlotSizes sizes = SlotSizesOf(graph, {first, last, recomputed}, /*forward_only=*/false);
  EXPECT_EQ(sizes.saved, worker->saved);
  EXPECT_EQ(sizes.shared, worker->shared);
  EXPECT_EQ(sizes.remade, worker->remade);
  EXPECT_EQ(sizes.pending, worker->pending);
  EXPECT_EQ(sizes.recomputed, worker->recomputed);
  EXPECT_EQ(sizes.scratch, worker->scratch);
  EXPECT_EQ(SlotSizesOf(graph, {first, last, recomputed}, /*forward_only=*/true).scratch, worker->scratch);
}

TEST(SlotSizesTest, AreTheBytesThatAWorkerCarves) {
  for (const Skips& skips : std::vector<Skips>{{}, {{0, 6}, {1, 3}, {2, 4}, {3, 5}}, {{1, 6}, {2, 5}}}) {
    for (const Layers& frozen : std::vector<Layers>{{}, {0}, {2, 3}, {0, 1, 2}, {0, 1, 2, 3, 4, 5}}) {
      SCOPED_TRACE(testing::PrintToString(skips) + " frozen " + testing::PrintToString(frozen));
      const v1::ModelGraph graph = GraphWith(frozen, skips);
      ASSERT_EQ(CheckSkipConnections(graph), absl::OkStatus());
      for (uint32_t first = 0; first < 7; ++first) {
        for (uint32_t last = first; last < 7; ++last) {
          ExpectSameAsAWorker(graph, first, last, {});
          ExpectSameAsAWorker(graph, first, last, BlocksOf(graph, first, last));
        }
      }
    }
  }
}

TEST(SlotSizesTest, ATensorIsHeldForEveryConnectionWithinAStage) {
  const v1::ModelGraph without = GraphWith({}, {}), with = GraphWith({}, {{0, 6}, {1, 3}, {2, 4}});
  const auto more = [&](uint32_t first, uint32_t last) {
    return SlotSizesOf(with, {first, last}, false).scratch - SlotSizesOf(without, {first, last}, false).scratch;
  };
  constexpr uint64_t kTensor = 384;  // 3 x 5 x 6 elements, rounded up
  EXPECT_EQ(more(0, 6), 3 * kTensor);
  EXPECT_EQ(more(1, 6), 2 * kTensor);
  EXPECT_EQ(more(1, 3), kTensor);
  EXPECT_EQ(more(2, 3), 0u);
}

}  // namespace
}  // namespace stagecoach
