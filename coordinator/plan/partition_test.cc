#include "coordinator/plan/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PartitionProblem EqualLayers(size_t num_layers, size_t num_workers) {
  return {.layers = std::vector<LayerLoad>(num_layers, {.forward_seconds = 1, .boundary_bytes = 1}),
          .workers = std::vector<WorkerCapacity>(num_workers)};
}

// The most layers in a stage of each worker, summed over its stages, in turn.
std::vector<uint32_t> LayersOfWorkers(const PartitionProblem& problem, const Partition& partition) {
  std::vector<uint32_t> layers(problem.workers.size());
  for (uint32_t stage = 0; stage < partition.stages.size(); ++stage) {
    const auto num_workers = static_cast<uint32_t>(problem.workers.size());
    const LayerRange range = partition.stages[stage];
    layers[WorkerOfStage(problem.placement, num_workers, stage)] += range.last - range.first + 1;
  }
  return layers;
}

// Fills stage after stage up to a bottleneck: optimal for costs in a row.
double LeastBottleneck(const std::vector<double>& costs, size_t num_stages) {
  double low = *std::max_element(costs.begin(), costs.end());
  double high = std::accumulate(costs.begin(), costs.end(), 0.0);
  while (low < high) {  // whole numbers
    const double middle = low + static_cast<double>(static_cast<int64_t>((high - low) / 2));
    size_t stages = 1;
    double stage = 0;
    for (const double cost : costs) {
      if (stage + cost > middle) ++stages, stage = 0;
      stage += cost;
    }
    (stages <= num_stages ? high : low) = stages <= num_stages ? middle : middle + 1;
  }
  return high;
}

TEST(PartitionTest, TransformersWithLargeHeadsAreCutAsWellAsCanBe) {
  for (const size_t num_blocks : {24U, 32U, 48U, 61U, 80U}) {
    for (const double head : {1, 3, 6, 12}) {
      std::vector<double> costs(num_blocks + 2, 100);
      costs.front() = 5;
      costs.back() = 100 * head;
      PartitionProblem problem{.layers = {}, .workers = {}};
      for (const double cost : costs) problem.layers.push_back({.forward_seconds = cost});
      for (const size_t num_workers : {2U, 4U, 8U, 16U}) {
        problem.workers.resize(num_workers);
        const absl::StatusOr<Partition> partition = BalancedPartition(problem);
        ASSERT_TRUE(partition.ok()) << partition.status();
        EXPECT_EQ(partition->bottleneck_seconds, LeastBottleneck(costs, num_workers));
        EXPECT_TRUE(partition->is_optimal);
      }
    }
  }
}

TEST(PartitionTest, TwoHundredLayersOverSixtyFourStagesAreExact) {
  const absl::StatusOr<Partition> partition = BalancedPartition(EqualLayers(200, 64));
  ASSERT_TRUE(partition.ok());
  EXPECT_EQ(partition->bottleneck_seconds, 4);
  EXPECT_TRUE(partition->is_optimal);
}

TEST(PartitionTest, TimesThatAreNoWholeNumbersTieAsWell) {
  PartitionProblem problem = EqualLayers(9, 3);
  for (LayerLoad& layer : problem.layers) layer.forward_seconds = 0.1;
  EXPECT_THAT(BalancedPartition(problem)->stages, ElementsAre(LayerRange{0, 2}, LayerRange{3, 5}, LayerRange{6, 8}));
}

TEST(PartitionTest, FasterWorkersTakeMoreLayers) {
  PartitionProblem problem = EqualLayers(9, 2);
  problem.workers[1].speed = 2;
  EXPECT_THAT(BalancedPartition(problem)->stages, ElementsAre(LayerRange{0, 2}, LayerRange{3, 8}));
}

TEST(PartitionTest, SmallerWorkersTakeFewerLayers) {
  PartitionProblem problem = EqualLayers(9, 3);
  for (LayerLoad& layer : problem.layers) layer.state_bytes = 10;
  problem.workers[1].memory_bytes = 15;
  EXPECT_THAT(BalancedPartition(problem)->stages, ElementsAre(LayerRange{0, 3}, LayerRange{4, 4}, LayerRange{5, 8}));
}

// In 1f1b the first stage holds the activations of all stages' micro-batches, the last one those of one.
TEST(PartitionTest, MicroBatchesInFlightCountAgainstTheMemory) {
  PartitionProblem problem = EqualLayers(8, 2);
  for (LayerLoad& layer : problem.layers) layer.saved_bytes = 10;
  problem.slots = {{.saved = 2}, {.saved = 1}};
  for (WorkerCapacity& worker : problem.workers) worker.memory_bytes = 60;
  EXPECT_THAT(BalancedPartition(problem)->stages, ElementsAre(LayerRange{0, 2}, LayerRange{3, 7}));
  for (WorkerCapacity& worker : problem.workers) worker.memory_bytes = 49;
  EXPECT_EQ(BalancedPartition(problem).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PartitionTest, OnlyAsManyLayersAreRecomputedAsTheMemoryNeeds) {
  PartitionProblem problem = EqualLayers(8, 2);
  for (LayerLoad& layer : problem.layers) {
    layer.saved_bytes = 10;
    layer.recompute_seconds = 0.25;
  }
  problem.slots = {{.saved = 3}, {.saved = 1}};
  problem.workers[0].memory_bytes = 85;  // four layers hold 120, 20 less for each that is recomputed
  const absl::StatusOr<Partition> partition = BalancedPartition(problem);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_THAT(partition->stages, ElementsAre(LayerRange{0, 3}, LayerRange{4, 7}));
  EXPECT_EQ(partition->recomputed_layers[0].size(), 2u);
  EXPECT_THAT(partition->recomputed_layers[1], IsEmpty());
  EXPECT_EQ(partition->bottleneck_seconds, 4.5);
}

TEST(PartitionTest, WhatIsAlwaysRecomputedTakesItsTimeAndHoldsNoMore) {
  PartitionProblem problem = EqualLayers(8, 2);
  for (LayerLoad& layer : problem.layers) {
    layer.saved_bytes = 10;
    layer.shared_bytes = 7;
    layer.input_bytes = 1;
    layer.recompute_seconds = 0.5;
    layer.is_always_recomputed = true;
  }
  problem.slots = {{.saved = 3, .shared = 4, .pending = 1, .remade = 2}, {.saved = 1, .shared = 1, .pending = 1}};
  problem.workers[0].memory_bytes = 4 * (10 + 2 * 7 + 4);
  const absl::StatusOr<Partition> partition = BalancedPartition(problem);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_THAT(partition->stages, ElementsAre(LayerRange{0, 3}, LayerRange{4, 7}));
  EXPECT_THAT(partition->recomputed_layers[1], ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(partition->bottleneck_seconds, 6);
  problem.workers[0].memory_bytes -= 1;
  EXPECT_EQ(BalancedPartition(problem)->stages.front(), (LayerRange{0, 2}));
  problem.layers[3].recompute_seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(BalancedPartition(problem).status().code(), absl::StatusCode::kInvalidArgument);
}

// A large head leaves the last stage no block too many: the worker of a V that has it has less on its other stage.
TEST(PartitionTest, StagesOfAWorkerAreBalancedTogether) {
  PartitionProblem problem = EqualLayers(14, 4);
  problem.layers.push_back({.forward_seconds = 2, .is_block = false});
  problem.num_chunks = 2;
  problem.placement = StagePlacement::kV;
  const absl::StatusOr<Partition> down_and_up = BalancedPartition(problem);
  ASSERT_TRUE(down_and_up.ok());
  EXPECT_EQ(down_and_up->bottleneck_seconds, 4);
  EXPECT_EQ(down_and_up->stages.front(), (LayerRange{0, 0}));
  EXPECT_THAT(LayersOfWorkers(problem, *down_and_up), ElementsAre(3, 4, 4, 4));
  problem.placement = StagePlacement::kLoop;
  const absl::StatusOr<Partition> loop = BalancedPartition(problem);
  ASSERT_TRUE(loop.ok());
  EXPECT_EQ(loop->bottleneck_seconds, 4);
  EXPECT_THAT(LayersOfWorkers(problem, *loop), ElementsAre(4, 4, 4, 3));
  for (const Partition* partition : {&*down_and_up, &*loop}) {
    EXPECT_TRUE(partition->is_optimal);
    for (const LayerRange stage : partition->stages) EXPECT_LE(stage.last - stage.first, 2u);
  }
}

TEST(PartitionTest, ManyChunksAreCutWellWithoutAProof) {
  PartitionProblem problem = EqualLayers(96, 8);
  problem.layers.push_back({.forward_seconds = 3, .is_block = false});
  problem.num_chunks = 6;
  const absl::StatusOr<Partition> partition = BalancedPartition(problem);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_FALSE(partition->is_optimal);
  EXPECT_EQ(partition->lower_bound_seconds, 99.0 / 8);
  EXPECT_LE(partition->bottleneck_seconds, 14);
}

TEST(PartitionTest, RefusesWhatIsNoProblem) {
  const auto code = [](const PartitionProblem& problem) { return BalancedPartition(problem).status().code(); };
  EXPECT_EQ(code(EqualLayers(10001, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EqualLayers(3, 4)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EqualLayers(3, 0)), absl::StatusCode::kInvalidArgument);
  PartitionProblem problem = EqualLayers(8, 2);
  problem.workers[1].speed = 0;
  EXPECT_EQ(code(problem), absl::StatusCode::kInvalidArgument);
  problem = EqualLayers(8, 2);
  problem.layers[3].forward_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code(problem), absl::StatusCode::kInvalidArgument);
  problem = EqualLayers(8, 2);
  problem.slots.resize(3);
  EXPECT_EQ(code(problem), absl::StatusCode::kInvalidArgument);
  problem = EqualLayers(8, 2);
  problem.layers[0].state_bytes = uint64_t{1} << 62;
  EXPECT_EQ(code(problem), absl::StatusCode::kInvalidArgument);
  problem = EqualLayers(8, 2);
  problem.num_chunks = 3;
  problem.placement = StagePlacement::kV;
  EXPECT_EQ(code(problem), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
