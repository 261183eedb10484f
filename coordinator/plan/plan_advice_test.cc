#include "coordinator/plan/plan_advice.h"

#include <cstddef>
#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Blocks of 10 FLOPs forward, 10 for each part of the backward, between an embedding and a head without any; a FLOP
// takes a second.
PlannedJob Job(const std::vector<uint32_t>& blocks_of_stage, uint32_t num_micro_batches) {
  PlannedJob job;
  job.graph.add_layers()->set_kind(v1::LAYER_KIND_TOKEN_EMBEDDING);
  uint32_t next_layer = 0;
  for (size_t stage = 0; stage < blocks_of_stage.size(); ++stage) {
    for (uint32_t i = 0; i < blocks_of_stage[stage]; ++i) {
      v1::LayerSpec& layer = *job.graph.add_layers();
      layer.set_kind(v1::LAYER_KIND_TRANSFORMER_BLOCK);
      layer.mutable_cost()->set_forward_flops(10);
      layer.mutable_cost()->set_backward_input_flops(10);
      layer.mutable_cost()->set_backward_weight_flops(10);
    }
    v1::StagePlan& planned = *job.plan.add_stages();
    planned.set_worker_rank(static_cast<uint32_t>(stage));
    planned.set_first_layer(next_layer);
    next_layer += blocks_of_stage[stage] + (stage == 0 ? 1 : 0);
    planned.set_last_layer(next_layer - 1 + (stage + 1 == blocks_of_stage.size() ? 1 : 0));
    for (const auto set : {&v1::StagePlan::set_forward_seconds, &v1::StagePlan::set_backward_input_seconds,
                           &v1::StagePlan::set_backward_weight_seconds}) {
      (planned.*set)(10.0 * blocks_of_stage[stage]);
    }
  }
  job.graph.add_layers()->set_kind(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD);
  job.plan.set_schedule("1f1b");
  job.plan.set_num_micro_batches(num_micro_batches);
  job.table = *(*FindSchedule("1f1b"))
                   ->Build({.num_workers = static_cast<uint32_t>(blocks_of_stage.size()),
                            .num_micro_batches = num_micro_batches});
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

TEST(PlanAdviceTest, AnEqualCutIsMadeWorseByEveryMove) {
  const PlanAdvice advice = AdviseOn(Job({2, 2, 2}, 6));
  EXPECT_DOUBLE_EQ(advice.step_seconds, (6 + 2) * 60);
  ASSERT_TRUE(advice.best_move.has_value());
  EXPECT_GT(advice.best_move->step_seconds, advice.step_seconds);
}

TEST(PlanAdviceTest, OneMoreMicroBatchTakesTheSlowestStageOnceMore) {
  const PlanAdvice advice = AdviseOn(Job({2, 2, 2}, 6));
  ASSERT_TRUE(advice.step_seconds_with_one_more.has_value());
  EXPECT_DOUBLE_EQ(*advice.step_seconds_with_one_more, (7 + 2) * 60);
  EXPECT_NEAR(*advice.bubble_ratio_with_one_more, 2.0 / 9, 1e-12);
}

TEST(PlanAdviceTest, NothingMovesWhereEveryStageHoldsOneBlock) {
  EXPECT_FALSE(AdviseOn(Job({1, 1}, 2)).best_move.has_value());
  EXPECT_FALSE(AdviseOn(Job({3}, 2)).best_move.has_value());
}

TEST(PlanAdviceTest, AScheduleThatIsNotKnownHasNoOtherNumberOfMicroBatches) {
  PlannedJob job = Job({1, 1}, 2);
  job.plan.set_schedule("from a file");
  EXPECT_FALSE(AdviseOn(job).step_seconds_with_one_more.has_value());
  EXPECT_GT(AdviseOn(job).step_seconds, 0);
}

}  // namespace
}  // namespace stagecoach
