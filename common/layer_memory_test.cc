#include "common/layer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/memory_layout.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

v1::LayerSpec Spec(v1::LayerKind kind, uint64_t hidden, uint64_t vocab = 100) {
  v1::LayerSpec spec;
  spec.set_name("layer");
  spec.set_kind(kind);
  (*spec.mutable_sizes())["hidden_size"] = hidden;
  (*spec.mutable_sizes())["num_attention_heads"] = 2;
  (*spec.mutable_sizes())["intermediate_size"] = 4 * hidden;
  (*spec.mutable_sizes())["vocab_size"] = vocab;
  return spec;
}

TEST(LayerMemoryTest, CountsABlock) {
  // 3 samples x 16 tokens = 48 rows of 16: every tensor is a multiple of 64 bytes.
  const auto bytes = MemoryOfLayer(Spec(v1::LAYER_KIND_TRANSFORMER_BLOCK, 16), 3, 16, 4);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->shared, 4u * 48 * (2 + 16 + 16 + 16 + 2 + 16 + 64));
  EXPECT_EQ(bytes->saved, 4u * 48 * (3 * 16 + 2 + 64));
  EXPECT_EQ(bytes->pending, 4u * 48 * (64 + 16 + 16 + 3 * 16 + 16));
  EXPECT_EQ(bytes->scratch, 4u * 48 * 16);
  EXPECT_EQ(bytes->input, 4u * 48 * 16);
  EXPECT_EQ(bytes->output, 4u * 48 * 16);
}

TEST(LayerMemoryTest, RoundsEveryTensorOfARegionUp) {
  const auto bytes = MemoryOfLayer(Spec(v1::LAYER_KIND_TRANSFORMER_BLOCK, 6), 1, 1, 4);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->shared, 6u * 64 + 128);
  EXPECT_EQ(bytes->saved, 128u + 64 + 128);
  EXPECT_EQ(bytes->pending, 128u + 64 + 64 + 128 + 64);
  EXPECT_EQ(bytes->scratch, 64u);
  EXPECT_EQ(bytes->input, 24u);
}

TEST(LayerMemoryTest, CountsTheSmallLayers) {
  const auto embedding = MemoryOfLayer(Spec(v1::LAYER_KIND_TOKEN_EMBEDDING, 16), 3, 5, 4);
  ASSERT_TRUE(embedding.ok()) << embedding.status();
  EXPECT_EQ(embedding->saved + embedding->shared + embedding->pending, 0u);
  EXPECT_EQ(embedding->scratch, 960u);
  EXPECT_EQ(embedding->input, 60u);
  EXPECT_EQ(embedding->output, 960u);
  const auto norm = MemoryOfLayer(Spec(v1::LAYER_KIND_LAYER_NORM, 16), 3, 5, 8);
  ASSERT_TRUE(norm.ok()) << norm.status();
  EXPECT_EQ(norm->shared, 256u);
  EXPECT_EQ(norm->saved + norm->pending + norm->scratch, 0u);
  EXPECT_EQ(norm->output, 8u * 15 * 16);
}

TEST(LayerMemoryTest, TheHeadHoldsAPieceOfTheLogits) {
  const auto bytes = MemoryOfLayer(Spec(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, 768, 50257), 4, 512, 4);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->saved, 4u * 2048 * 768);
  EXPECT_EQ(bytes->shared, 4u * 2048);
  EXPECT_EQ(bytes->pending, 0u);
  EXPECT_EQ(bytes->output, 8u);
  EXPECT_LE(bytes->scratch, 65u << 20);
  EXPECT_EQ(HeadForwardRows(2048, 50257), 320);
  EXPECT_EQ(HeadWeightColumns(2048, 50257), 8192);
}

TEST(LayerMemoryTest, HeadTilesStayWithinTheShape) {
  EXPECT_EQ(HeadForwardRows(40, 256), 40);
  EXPECT_EQ(HeadForwardRows(0, 256), 0);
  EXPECT_EQ(HeadForwardRows(1000, int64_t{1} << 24), 64);
  EXPECT_EQ(HeadWeightColumns(40, 256), 256);
  EXPECT_EQ(HeadWeightColumns(0, 256), 256);
  EXPECT_EQ(HeadWeightColumns(int64_t{1} << 20, 256), 64);
}

TEST(LayerMemoryTest, FewerSamplesNeverNeedMore) {
  for (const v1::LayerKind kind : {v1::LAYER_KIND_TOKEN_EMBEDDING, v1::LAYER_KIND_TRANSFORMER_BLOCK,
                                   v1::LAYER_KIND_LAYER_NORM, v1::LAYER_KIND_LANGUAGE_MODEL_HEAD}) {
    for (const uint64_t vocab : {7u, 50257u, 600000u}) {
      LayerMemoryBytes fewer;
      for (uint64_t samples = 0; samples < 60; ++samples) {
        const auto more = MemoryOfLayer(Spec(kind, 10, vocab), samples, 331, 4);
        ASSERT_TRUE(more.ok()) << more.status();
        EXPECT_GE(more->saved, fewer.saved);
        EXPECT_GE(more->shared, fewer.shared);
        EXPECT_GE(more->pending, fewer.pending);
        EXPECT_GE(more->scratch, fewer.scratch);
        const auto rows = static_cast<int64_t>(samples) * 331;
        EXPECT_GE(more->scratch,
                  kind != v1::LAYER_KIND_LANGUAGE_MODEL_HEAD
                      ? 0
                      : static_cast<uint64_t>(rows * HeadWeightColumns(rows, static_cast<int64_t>(vocab)) * 4));
        fewer = *more;
      }
    }
  }
}

TEST(LayerMemoryTest, RefusesWhatNoMemoryHolds) {
  for (const v1::LayerKind kind : {v1::LAYER_KIND_TOKEN_EMBEDDING, v1::LAYER_KIND_TRANSFORMER_BLOCK,
                                   v1::LAYER_KIND_LAYER_NORM, v1::LAYER_KIND_LANGUAGE_MODEL_HEAD}) {
    for (const uint64_t huge : {uint64_t{1} << 62, UINT64_MAX}) {
      EXPECT_EQ(MemoryOfLayer(Spec(kind, 16), huge, 1024, 4).status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(MemoryOfLayer(Spec(kind, 16), 1, huge, 4).status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(MemoryOfLayer(Spec(kind, huge), 1, 1, 4).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_FALSE(MemoryOfLayer(Spec(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, 16, UINT64_MAX), 2, 1024, 4).ok());
}

TEST(LayerMemoryTest, NamesTheSizeThatIsMissing) {
  v1::LayerSpec spec = Spec(v1::LAYER_KIND_TRANSFORMER_BLOCK, 16);
  spec.set_name("transformer.h.3");
  spec.mutable_sizes()->erase("intermediate_size");
  EXPECT_THAT(MemoryOfLayer(spec, 1, 1, 4).status().ToString(), HasSubstr("transformer.h.3 needs a size intermediate"));
  EXPECT_THAT(MemoryOfLayer(v1::LayerSpec(), 1, 1, 4).status().ToString(), HasSubstr("kind 0"));
}

TEST(LayerMemoryTest, AStageIsItsLayersOneAfterAnother) {
  v1::ModelGraph graph;
  *graph.add_layers() = Spec(v1::LAYER_KIND_TOKEN_EMBEDDING, 6);
  *graph.add_layers() = Spec(v1::LAYER_KIND_TRANSFORMER_BLOCK, 6);
  *graph.add_layers() = Spec(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, 6);
  graph.set_micro_batch_size(3);
  graph.set_seq_len(5);
  const auto block = MemoryOfLayer(graph.layers(1), 3, 5, 4);
  const auto head = MemoryOfLayer(graph.layers(2), 3, 5, 4);
  const auto stage = MemoryOfStage(graph, {1, 2}, 4);
  ASSERT_TRUE(stage.ok()) << stage.status();
  EXPECT_EQ(stage->saved, block->saved + head->saved);
  EXPECT_EQ(stage->shared, AlignUp(block->input) + block->shared + AlignUp(head->input) + head->shared);
  EXPECT_EQ(stage->pending, AlignUp(block->output) + block->pending + 64);
  EXPECT_EQ(stage->scratch, std::max(block->scratch, head->scratch));
  EXPECT_EQ(stage->remade, 0u);
  EXPECT_EQ(stage->recomputed, 0u);
  EXPECT_EQ(stage->held, 0u);
  EXPECT_FALSE(MemoryOfStage(graph, {1, 3}, 4).ok());
  EXPECT_FALSE(MemoryOfStage(graph, {2, 1}, 4).ok());
}

TEST(LayerMemoryTest, TensorsOfConnectionsWithinAStageLieBehindItsScratch) {
  v1::ModelGraph graph;
  *graph.add_layers() = Spec(v1::LAYER_KIND_TOKEN_EMBEDDING, 6);
  for (int i = 0; i < 3; ++i) *graph.add_layers() = Spec(v1::LAYER_KIND_TRANSFORMER_BLOCK, 6);
  *graph.add_layers() = Spec(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, 6);
  graph.set_micro_batch_size(3);
  graph.set_seq_len(5);
  for (const auto& [from, to] : {std::pair(0u, 2u), {1u, 4u}}) {
    graph.add_skip_connections()->set_from_layer(from);
    graph.mutable_skip_connections()->rbegin()->set_to_layer(to);
  }
  const uint64_t tensor = AlignUp(uint64_t{3} * 5 * 6 * 4);
  const uint64_t block = MemoryOfLayer(graph.layers(1), 3, 5, 4)->scratch;
  const uint64_t head = MemoryOfLayer(graph.layers(4), 3, 5, 4)->scratch;
  const auto expect = [&](const StageExtent& extent, uint64_t scratch, uint64_t held) {
    const auto stage = MemoryOfStage(graph, extent, 4);
    ASSERT_TRUE(stage.ok()) << stage.status();
    EXPECT_EQ(stage->held, held);
    EXPECT_EQ(stage->scratch, scratch + held);
  };
  expect({0, 1}, block, 0);
  expect({0, 2}, block, tensor);
  expect({1, 3}, block, 0);
  expect({1, 4}, head, tensor);
  expect({0, 4}, head, 2 * tensor);
  graph.mutable_skip_connections(1)->set_to_layer(2);
  EXPECT_THAT(MemoryOfStage(graph, {0, 4}, 4).status().ToString(), HasSubstr("INVALID_ARGUMENT: a skip connection"));
}

}  // namespace
}  // namespace stagecoach
