#include "coordinator/plan/partition.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/program/testing/small_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// (bottleneck, boundary bytes, cuts): smaller is better.
using Quality = std::tuple<double, uint64_t, std::vector<uint32_t>>;

std::optional<Quality> QualityOf(const PartitionProblem& problem, const StagePartition& partition) {
  Quality quality{0, 0, {}};
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    double cost = 0;
    bool holds_block = false;
    for (size_t layer = partition[stage].first; layer <= partition[stage].last; ++layer) {
      cost += problem.cost_of_layer[layer];
      holds_block |= problem.is_block[layer];
    }
    if (!holds_block) return std::nullopt;
    std::get<0>(quality) = std::max(std::get<0>(quality), cost / problem.speed_of_stage[stage]);
    if (stage + 1 == partition.size()) continue;
    std::get<1>(quality) += problem.boundary_bytes[partition[stage].last];
    std::get<2>(quality).push_back(partition[stage].last);
  }
  return quality;
}

// All ways to put num_stages - 1 cuts between layers.
std::optional<Quality> BruteForce(const PartitionProblem& problem) {
  const size_t n = problem.cost_of_layer.size();
  std::optional<Quality> best;
  for (uint32_t cuts = 0; cuts < (1u << (n - 1)); ++cuts) {
    if (static_cast<size_t>(__builtin_popcount(cuts)) + 1 != problem.speed_of_stage.size()) continue;
    StagePartition partition;
    uint32_t first = 0;
    for (uint32_t layer = 0; layer < n; ++layer) {
      if (layer + 1 < n && (cuts >> layer & 1u) == 0) continue;
      partition.push_back({first, layer});
      first = layer + 1;
    }
    const std::optional<Quality> quality = QualityOf(problem, partition);
    if (quality.has_value() && (!best.has_value() || *quality < *best)) best = quality;
  }
  return best;
}

TEST(PartitionTest, NoPartitionIsBetterThanTheBalancedOne) {
  std::mt19937 random(3);
  int num_impossible = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    PartitionProblem problem;
    const size_t n = 1 + random() % 10;
    for (size_t i = 0; i < n; ++i) {
      problem.cost_of_layer.push_back(
          static_cast<double>(random() % 6));  // whole numbers, so that sums are exact and ties are many
      problem.boundary_bytes.push_back(random() % 3);
      problem.is_block.push_back(random() % 4 != 0);
    }
    const size_t num_stages = 1 + random() % 5;
    for (size_t i = 0; i < num_stages; ++i)
      problem.speed_of_stage.push_back(trial % 2 == 0 ? 1 : static_cast<double>(1u << random() % 3));
    const absl::StatusOr<StagePartition> partition = BalancedPartition(problem);
    const std::optional<Quality> best = BruteForce(problem);
    ASSERT_EQ(partition.ok(), best.has_value()) << partition.status();
    if (!best.has_value()) {
      ++num_impossible;
      continue;
    }
    ASSERT_EQ(QualityOf(problem, *partition), best);
    ASSERT_EQ(partition->front().first, 0u);
    ASSERT_EQ(partition->back().last, n - 1);
  }
  EXPECT_GT(num_impossible, 50);
  EXPECT_LT(num_impossible, 1500);
}

TEST(PartitionTest, TwoHundredLayersOverSixtyFourStagesAreExact) {
  PartitionProblem problem;
  problem.cost_of_layer.assign(200, 1);
  problem.boundary_bytes.assign(200, 1);
  problem.is_block.assign(200, true);
  problem.speed_of_stage.assign(64, 1);
  const absl::StatusOr<StagePartition> partition = BalancedPartition(problem);
  ASSERT_TRUE(partition.ok());
  EXPECT_EQ(std::get<0>(*QualityOf(problem, *partition)), 4);
}

TEST(PartitionTest, RefusesMoreLayersThanItCanBalance) {
  PartitionProblem problem;
  problem.cost_of_layer.assign(10001, 1);
  problem.boundary_bytes.assign(10001, 1);
  problem.is_block.assign(10001, true);
  problem.speed_of_stage.assign(2, 1);
  EXPECT_EQ(BalancedPartition(problem).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PartitionTest, FasterWorkersTakeMoreLayers) {
  PartitionProblem problem;
  problem.cost_of_layer.assign(9, 1);
  problem.boundary_bytes.assign(9, 1);
  problem.is_block.assign(9, true);
  problem.speed_of_stage = {1, 2};
  EXPECT_THAT(*BalancedPartition(problem), ElementsAre(LayerRange{0, 2}, LayerRange{3, 8}));
}

v1::PartitionSpec Spec(v1::PartitionSpec::Kind kind, const std::vector<uint32_t>& num_blocks = {}) {
  v1::PartitionSpec spec;
  spec.set_kind(kind);
  for (const uint32_t blocks : num_blocks) spec.add_num_blocks(blocks);
  return spec;
}

TEST(PartitionTest, EvenAndListedPartitionsCountBlocks) {
  const v1::ModelGraph graph = testing::SmallGraph(5, true);  // embedding, blocks 1..5, norm 6, head 7
  EXPECT_THAT(*PartitionGraph(graph, Spec(v1::PartitionSpec::KIND_EVEN), {1, 1}),
              ElementsAre(LayerRange{0, 3}, LayerRange{4, 7}));
  EXPECT_THAT(*PartitionGraph(graph, Spec(v1::PartitionSpec::KIND_EVEN), {1}), ElementsAre(LayerRange{0, 7}));
  EXPECT_THAT(*PartitionGraph(graph, Spec(v1::PartitionSpec::KIND_LAYERS, {1, 3, 1}), {1, 1, 1}),
              ElementsAre(LayerRange{0, 1}, LayerRange{2, 4}, LayerRange{5, 7}));
}

TEST(PartitionTest, RefusesListsThatDoNotFit) {
  const v1::ModelGraph graph = testing::SmallGraph(5, true);
  const auto refusal = [&graph](const std::vector<uint32_t>& list, size_t num_stages) {
    const absl::StatusOr<StagePartition> partition =
        PartitionGraph(graph, Spec(v1::PartitionSpec::KIND_LAYERS, list), std::vector<double>(num_stages, 1));
    EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(partition.status().message());
  };
  EXPECT_THAT(refusal({2, 2}, 2), AllOf(HasSubstr("[2, 2] sums to 4"), HasSubstr("num_hidden_layers is 5")));
  EXPECT_THAT(refusal({2, 3}, 3), HasSubstr("is for 2 stages, and there are 3"));
  EXPECT_THAT(refusal({0, 5}, 2), HasSubstr("without a block"));
  EXPECT_THAT(refusal({4294967295, 6}, 2), HasSubstr("sums to 4294967301"));
}

TEST(PartitionTest, RefusesMoreStagesThanBlocks) {
  const v1::ModelGraph graph = testing::SmallGraph(3, true);
  for (const auto kind : {v1::PartitionSpec::KIND_AUTO, v1::PartitionSpec::KIND_EVEN, v1::PartitionSpec::KIND_LAYERS}) {
    const absl::StatusOr<StagePartition> partition = PartitionGraph(graph, Spec(kind), {1, 1, 1, 1});
    EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(partition.status().message()), HasSubstr("4 stages for 3 transformer blocks"));
  }
  EXPECT_FALSE(PartitionGraph(graph, Spec(v1::PartitionSpec::KIND_AUTO), {}).ok());
}

}  // namespace
}  // namespace stagecoach
