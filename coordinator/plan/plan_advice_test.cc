#include "coordinator/plan/plan_advice.h"

#include <vector>

#include "coordinator/plan/cost_model.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Blocks of 10 seconds forward, 10 for each part of the backward, between an embedding and a head without any.
PlannedJob Job(const std::vector<uint32_t>& blocks_of_stage, uint32_t num_micro_batches) {
  PlannedJob job;
  PartitionProblem& problem = job.cut.problem;
  problem.layers.push_back({.is_block = false});
  uint32_t next_layer = 0;
  for (const uint32_t num_blocks : blocks_of_stage) {
    const LayerLoad block = {.forward_seconds = 10, .backward_input_seconds = 10, .backward_weight_seconds = 10};
    problem.layers.insert(problem.layers.end(), num_blocks, block);
    job.cut.partition.stages.push_back({next_layer, static_cast<uint32_t>(problem.layers.size() - 1)});
    next_layer = static_cast<uint32_t>(problem.layers.size());
  }
  ++job.cut.partition.stages.back().last;
  job.cut.partition.recomputed_layers.resize(blocks_of_stage.size());
  problem.layers.push_back({.is_block = false});
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) job.graph.add_layers();
  problem.workers.resize(blocks_of_stage.size());
  job.cut.schedule_problem = {.num_workers = static_cast<uint32_t>(blocks_of_stage.size()),
                              .num_micro_batches = num_micro_batches,
                              .cost_of_stage = StageCosts(problem, job.cut.partition)};
  job.cut.table = *(*FindSchedule("1f1b"))->Build(job.cut.schedule_problem);
  job.plan.set_schedule("1f1b");
  return job;
}

TEST(PlanAdviceTest, ABlockTooManyGoesToTheStageThatHasFewer) {
  const PlanAdvice advice = AdviseOn(Job({2, 4}, 8));
  // Stage 1 is busy for 8 x 120 seconds, with F of stage 0 before and B after.
  EXPECT_DOUBLE_EQ(advice.step_seconds, 20 + 8 * 120 + 40);
  ASSERT_TRUE(advice.best_move.has_value());
  EXPECT_EQ(advice.best_move->from_stage, 1u);
  EXPECT_EQ(advice.best_move->to_stage, 0u);
  EXPECT_EQ(advice.best_move->layer, 3u);
  EXPECT_DOUBLE_EQ(advice.best_move->step_seconds, (8 + 1) * 90);
}

// A block that is trained, on a stage that had none: the stage then has a backward.
TEST(PlanAdviceTest, AMoveIsTimedWithTheBackwardThatItBrings) {
  PlannedJob job = Job({2, 4}, 8);
  for (const int layer : {0, 1, 2}) {
    job.graph.mutable_layers(layer)->set_frozen(true);
    job.cut.problem.layers[static_cast<size_t>(layer)].backward_input_seconds = 0;
    job.cut.problem.layers[static_cast<size_t>(layer)].backward_weight_seconds = 0;
  }
  job.cut.schedule_problem.cost_of_stage = StageCosts(job.cut.problem, job.cut.partition);
  job.cut.table = WithoutFrozen(job.cut.table, BackwardOfStages(job.graph, job.cut.partition.stages));
  const PlanAdvice advice = AdviseOn(job);
  EXPECT_DOUBLE_EQ(advice.step_seconds, 20 + 8 * 120);
  ASSERT_TRUE(advice.best_move.has_value());
  EXPECT_EQ(advice.best_move->layer, 3u);
  // F of three blocks in front and B of one behind, or more where they get into each other's way.
  EXPECT_GE(advice.best_move->step_seconds, 30 + 8 * 90 + 20);
}

TEST(PlanAdviceTest, AnEqualCutIsMadeWorseByEveryMove) {
  const PlanAdvice advice = AdviseOn(Job({2, 2, 2}, 6));
  EXPECT_DOUBLE_EQ(advice.step_seconds, (6 + 2) * 60);
  ASSERT_TRUE(advice.best_move.has_value());
  EXPECT_GT(advice.best_move->step_seconds, advice.step_seconds);
}

TEST(PlanAdviceTest, AnOrderThatWasSearchedHasNoTableForOneMoreMicroBatch) {
  PlannedJob job = Job({2, 2, 2}, 6);
  job.order = job.cut.table;
  const PlanAdvice advice = AdviseOn(job);
  EXPECT_TRUE(advice.best_move.has_value());
  EXPECT_FALSE(advice.step_seconds_with_one_more.has_value());
}

TEST(PlanAdviceTest, OneMoreMicroBatchTakesTheSlowestStageOnceMore) {
  const PlanAdvice advice = AdviseOn(Job({2, 2, 2}, 6));
  ASSERT_TRUE(advice.step_seconds_with_one_more.has_value());
  EXPECT_DOUBLE_EQ(*advice.step_seconds_with_one_more, (7 + 2) * 60);
  EXPECT_NEAR(*advice.bubble_ratio_with_one_more, 2.0 / 9, 1e-12);
}

TEST(PlanAdviceTest, WhatIsRecomputedMovesWithItsBlock) {
  PlannedJob job = Job({2, 4}, 8);
  Partition& partition = job.cut.partition;
  for (uint32_t layer = 0; layer < job.cut.problem.layers.size(); ++layer) {
    LayerLoad& load = job.cut.problem.layers[layer];
    if (!load.is_block) continue;
    load.recompute_seconds = 10;
    partition.recomputed_layers[layer <= partition.stages[0].last ? 0 : 1].push_back(layer);
  }
  job.cut.schedule_problem.cost_of_stage = StageCosts(job.cut.problem, partition);
  job.cut.table = WithRecomputation(job.cut.table, {true, true});
  const PlanAdvice advice = AdviseOn(job);
  EXPECT_DOUBLE_EQ(advice.step_seconds, 20 + 8 * 160 + 40);
  ASSERT_TRUE(advice.best_move.has_value());
  EXPECT_EQ(advice.best_move->layer, 3u);
  EXPECT_DOUBLE_EQ(advice.best_move->step_seconds, 30 + 8 * 120 + 60);
  EXPECT_DOUBLE_EQ(*advice.step_seconds_with_one_more, 20 + 9 * 160 + 40);
}

TEST(PlanAdviceTest, NothingMovesWhereEveryStageHoldsOneBlock) {
  EXPECT_FALSE(AdviseOn(Job({1, 1}, 2)).best_move.has_value());
  EXPECT_FALSE(AdviseOn(Job({3}, 2)).best_move.has_value());
}

TEST(PlanAdviceTest, LinksCount) {
  PlannedJob job = Job({2, 2}, 4);
  job.cut.schedule_problem.communication_seconds = 1;
  EXPECT_GT(AdviseOn(job).step_seconds, AdviseOn(Job({2, 2}, 4)).step_seconds);
}

TEST(PlanAdviceTest, AScheduleThatIsNotKnownHasNoOtherNumberOfMicroBatches) {
  PlannedJob job = Job({1, 1}, 2);
  job.plan.set_schedule("from a file");
  EXPECT_FALSE(AdviseOn(job).step_seconds_with_one_more.has_value());
  EXPECT_GT(AdviseOn(job).step_seconds, 0);
}

}  // namespace
}  // namespace stagecoach
