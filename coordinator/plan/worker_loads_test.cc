#include "coordinator/plan/worker_loads.h"

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/plan/partition.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Eight blocks, two on each of four workers, whose memory holds nothing but what skips need.
PartitionProblem Problem(const std::vector<SkipLoad>& skips, uint32_t num_micro_batches) {
  PartitionProblem problem{.layers = std::vector<LayerLoad>(8, {.forward_seconds = 1}),
                           .workers = std::vector<WorkerCapacity>(4)};
  problem.slots.resize(4);
  problem.skips = skips;
  problem.num_micro_batches = num_micro_batches;
  return problem;
}

std::vector<uint64_t> BytesOfPairs(const PartitionProblem& problem) {
  const WorkerLoads loads(problem);
  std::vector<uint64_t> bytes;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const LayerSpan span{2 * rank, 2 * rank + 2};
    bytes.push_back(loads.MemoryOf(rank, std::span(&span, 1)).needed_bytes);
  }
  return bytes;
}

using Bytes = std::vector<uint64_t>;

TEST(WorkerLoadsTest, SkipsNeedSlotsAtBothEndsAndNoneBetween) {
  EXPECT_EQ(BytesOfPairs(Problem({}, 8)), (Bytes{0, 0, 0, 0}));
  // Stage 0: two to send, gradients of 3 + 2 micro-batches. Stage 3: 3 + 2, and two gradients to send.
  EXPECT_EQ(BytesOfPairs(Problem({{1, 6, 10}}, 8)), (Bytes{70, 0, 0, 70}));
  // Stage 1: two to send, gradients of 2 + 2. Stage 2: the same.
  EXPECT_EQ(BytesOfPairs(Problem({{1, 6, 10}, {2, 5, 100}}, 8)), (Bytes{70, 600, 600, 70}));
  // Stage 1 has both the end of one and the start of another. No more than two stages are between layers 0 and 2.
  EXPECT_EQ(BytesOfPairs(Problem({{0, 2, 10}, {2, 7, 100}}, 8)), (Bytes{60, 50 + 600, 0, 700}));
}

TEST(WorkerLoadsTest, NoMoreMicroBatchesWaitThanThereAre) {
  EXPECT_EQ(BytesOfPairs(Problem({{1, 6, 10}}, 3)), (Bytes{50, 0, 0, 50}));
  EXPECT_EQ(BytesOfPairs(Problem({{1, 6, 10}}, 1)), (Bytes{30, 0, 0, 30}));
}

// Two more then, as their sender may run ahead.
TEST(WorkerLoadsTest, WithoutAGradientActivationsAloneHaveSlots) {
  EXPECT_EQ(BytesOfPairs(Problem({{1, 6, 10, false}, {2, 5, 100}}, 8)), (Bytes{20, 600, 600, 70}));
}

TEST(WorkerLoadsTest, WhatStaysInAStageLiesBehindItsScratch) {
  PartitionProblem problem = Problem({{0, 2, 10}, {1, 3, 20}, {2, 6, 40}}, 8);
  problem.layers[1].scratch_bytes = 5;
  const WorkerLoads loads(problem);
  const LayerSpan all{0, 8};
  EXPECT_EQ(loads.MemoryOf(0, std::span(&all, 1)).needed_bytes, 5u + 70u);
  const LayerSpan half{0, 4};
  // 2 to send and 5 gradients of the third.
  EXPECT_EQ(loads.MemoryOf(0, std::span(&half, 1)).needed_bytes, 5u + 30u + 7 * 40u);
}

// Stages of a worker take turns in its scratch, and each has its own slots.
TEST(WorkerLoadsTest, AWorkerHasTheSlotsOfAllItsStages) {
  PartitionProblem problem = Problem({{0, 2, 10}, {1, 7, 100}}, 8);
  problem.workers.resize(2);
  problem.num_chunks = 2;
  problem.placement = StagePlacement::kV;
  const WorkerLoads loads(problem);
  // Stages 0 and 3 of four, of layers 0 to 2 and 6 to 7.
  const std::vector<LayerSpan> spans = {{0, 3}, {6, 8}};
  EXPECT_EQ(loads.MemoryOf(0, spans).needed_bytes, 10 + 700 + 700u);
}

TEST(WorkerLoadsTest, SkipsThatAreNoneAreRefused) {
  const auto is_refused = [](const std::vector<SkipLoad>& skips) {
    return CheckPartitionProblem(Problem(skips, 8)).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(is_refused({{1, 6, 10}, {2, 5, 10}}));
  EXPECT_TRUE(is_refused({{2, 5, 10}, {1, 6, 10}}));
  EXPECT_TRUE(is_refused({{6, 1, 10}}));
  EXPECT_TRUE(is_refused({{1, 8, 10}}));
  EXPECT_TRUE(is_refused({{1, 6, UINT64_MAX / 4}}));
}

// Apart, the ends need five tensors each.
TEST(WorkerLoadsTest, APartitionKeepsAConnectionTogetherWhereMemoryIsShort) {
  PartitionProblem problem = Problem({{2, 4, 10}}, 8);
  problem.workers.resize(2);
  problem.slots.resize(2);
  EXPECT_EQ(BalancedPartition(problem)->stages, (StagePartition{{0, 3}, {4, 7}}));
  for (WorkerCapacity& worker : problem.workers) worker.memory_bytes = 49;
  EXPECT_EQ(BalancedPartition(problem)->stages, (StagePartition{{0, 4}, {5, 7}}));
}

}  // namespace
}  // namespace stagecoach
