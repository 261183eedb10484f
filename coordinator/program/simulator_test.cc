#include "coordinator/program/simulator.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "coordinator/program/testing/action.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kRounding = 1e-9;

struct Timed {
  v1::ComputeTable table;
  Timeline timeline;
};

Timed Time(absl::string_view schedule, const ScheduleProblem& problem) {
  absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  EXPECT_TRUE(table.ok()) << table.status();
  absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return {*table, *timeline};
}

ScheduleProblem Uniform(uint32_t p, uint32_t m, StageCost cost) {
  ScheduleProblem problem;
  problem.num_workers = p;
  problem.num_micro_batches = m;
  problem.cost_of_stage.assign(p, cost);
  return problem;
}

TEST(SimulatorTest, UniformPipelinesHaveTheBubbleOfTheFormula) {
  const std::vector<StageCost> costs = {{1, 1, 1}, {1, 2, 0.5}, {3, 1, 2}, {0.25, 4, 1}};
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (uint32_t p = 1; p <= 8; ++p) {
      for (const uint32_t m : {1u, 2u, 3u, 5u, 8u, 16u, 33u}) {
        for (const StageCost& cost : costs) {
          const Timeline timeline = Time(schedule, Uniform(p, m, cost)).timeline;
          const double full = cost.forward + cost.backward_input + cost.backward_weight;
          EXPECT_NEAR(timeline.makespan, (m + p - 1) * full, kRounding) << schedule << " p=" << p << " m=" << m;
          const double ratio = (p - 1.0) / (m + p - 1.0);
          EXPECT_NEAR(timeline.bubble_ratio_span, ratio, kRounding);
          EXPECT_NEAR(timeline.bubble_ratio_device, ratio, kRounding);
          EXPECT_NEAR(timeline.lower_bound, timeline.makespan, kRounding);
        }
      }
    }
  }
}

TEST(SimulatorTest, PeaksAreThoseOfTheSchedule) {
  for (uint32_t p = 1; p <= 8; ++p) {
    for (const uint32_t m : {1u, 2u, 5u, 16u}) {
      const Timeline gpipe = Time("gpipe", Uniform(p, m, {})).timeline;
      EXPECT_THAT(gpipe.peak_activations, Each(m));
      EXPECT_THAT(gpipe.peak_pending_weight, Each(1));
      const Timeline one_f_one_b = Time("1f1b", Uniform(p, m, {})).timeline;
      for (uint32_t r = 0; r < p; ++r) EXPECT_EQ(one_f_one_b.peak_activations[r], std::min(m, p - r));
      EXPECT_THAT(one_f_one_b.peak_pending_weight, Each(1));
    }
  }
}

TEST(SimulatorTest, ForwardOnlyKeepsOneMicroBatchAndReachesItsBound) {
  ScheduleProblem problem = Uniform(4, 6, {2, 1, 1});
  problem.communication_seconds = 0.5;
  const Timeline timeline = Time("forward_only", problem).timeline;
  EXPECT_NEAR(timeline.makespan, (6 + 3) * 2 + 3 * 0.5, kRounding);
  EXPECT_NEAR(timeline.lower_bound, timeline.makespan, kRounding);
  EXPECT_THAT(timeline.peak_activations, Each(1));
  EXPECT_THAT(timeline.peak_pending_weight, Each(0));
}

TEST(SimulatorTest, UnevenStagesAreNeverFasterThanTheBound) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.5, 4);
  int num_at_bound = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const uint32_t p = 2 + static_cast<uint32_t>(trial) % 7;
    ScheduleProblem problem = Uniform(p, 1 + static_cast<uint32_t>(trial) % 13, {});
    for (StageCost& cost : problem.cost_of_stage) cost = {seconds(random), seconds(random), seconds(random)};
    double bound = 0;
    double before = 0;
    for (const StageCost& cost : problem.cost_of_stage) {
      const double full = cost.forward + cost.backward_input + cost.backward_weight;
      bound = std::max(bound, before + problem.num_micro_batches * full);
      before += full;
    }
    for (const char* schedule : {"gpipe", "1f1b"}) {
      const Timeline timeline = Time(schedule, problem).timeline;
      EXPECT_NEAR(timeline.lower_bound, bound, kRounding);
      EXPECT_GE(timeline.makespan, bound - kRounding);
      if (timeline.makespan < bound + kRounding) ++num_at_bound;
    }
  }
  EXPECT_GT(num_at_bound, 100);  // a bound that is often met
}

v1::ComputeTable TableOf(uint32_t num_stages, uint32_t num_micro_batches,
                         const std::vector<std::vector<v1::Action>>& rows) {
  v1::ComputeTable table;
  table.set_num_stages(num_stages);
  table.set_num_micro_batches(num_micro_batches);
  for (const std::vector<v1::Action>& row : rows) {
    v1::WorkerActions* worker = table.add_workers();
    for (const v1::Action& action : row) *worker->add_actions() = action;
  }
  return table;
}

TEST(SimulatorTest, InputGradientOfASplitBackwardLeavesBeforeItsWeightGradient) {
  constexpr auto F = v1::ACTION_KIND_FORWARD;
  constexpr auto I = v1::ACTION_KIND_BACKWARD_INPUT;
  constexpr auto W = v1::ACTION_KIND_BACKWARD_WEIGHT;
  const uint32_t p = 4;
  std::vector<std::vector<v1::Action>> rows;
  for (uint32_t s = 0; s < p; ++s) rows.push_back({MakeAction(F, s, 0), MakeAction(I, s, 0), MakeAction(W, s, 0)});
  const absl::StatusOr<Timeline> timeline = Simulate(TableOf(p, 1, rows), Uniform(p, 1, {}));
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->makespan, 9);  // p (F + I) + W
  EXPECT_EQ(timeline->lower_bound, 9);
}

TEST(SimulatorTest, StagesOfOneWorkerAreSharesOfAFullStage) {
  constexpr auto F = v1::ACTION_KIND_FORWARD;
  constexpr auto B = v1::ACTION_KIND_BACKWARD;
  ScheduleProblem problem;
  problem.num_workers = 1;
  problem.num_chunks = 2;
  problem.num_micro_batches = 1;
  problem.communication_seconds = 100;  // there is no hop within a worker
  const absl::StatusOr<Timeline> timeline = Simulate(
      TableOf(2, 1, {{MakeAction(F, 0, 0), MakeAction(F, 1, 0), MakeAction(B, 1, 0), MakeAction(B, 0, 0)}}), problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->makespan, 6);
  EXPECT_THAT(timeline->peak_activations, Each(1));
  EXPECT_THAT(timeline->peak_pending_weight, Each(0.5));
}

TEST(SimulatorTest, TransfersOnOneDirectionOfAnEdgeGoOneAfterAnother) {
  ScheduleProblem problem = Uniform(2, 3, {1, 1, 1});
  problem.edge_seconds = {5};
  problem.communication_seconds = 2;
  const Timeline timeline = Time("gpipe", problem).timeline;
  std::vector<double> forwards;
  std::vector<double> backwards;
  for (const TimedAction& timed : timeline.workers[1]) {
    if (timed.action.kind() == v1::ACTION_KIND_FORWARD) forwards.push_back(timed.start);
  }
  for (const TimedAction& timed : timeline.workers[0]) {
    if (timed.action.kind() == v1::ACTION_KIND_BACKWARD) backwards.push_back(timed.start);
  }
  // Sent at 1, 2, 3; the edge is free at 6, 11, 16.
  EXPECT_THAT(forwards, ElementsAre(8, 13, 18));
  // Sent at 21, 23, 25: the other direction has its own edge.
  EXPECT_THAT(backwards, ElementsAre(28, 33, 38));
  EXPECT_EQ(timeline.makespan, 40);
  EXPECT_LE(timeline.lower_bound, timeline.makespan);
}

// What a worker does takes 3 micro-batches x 3: the bound is the edge's.
TEST(SimulatorTest, TheBoundCountsWhatAnEdgeCarries) {
  ScheduleProblem problem = Uniform(2, 3, {1, 1, 1});
  problem.edge_seconds = {5};
  problem.communication_seconds = 2;
  // Down at 1, 6, 11 and 16, there at 18; F until 19, B until 21, up until 28, B until 30. Up, from 11 on: the same.
  EXPECT_EQ(Time("gpipe", problem).timeline.lower_bound, 30);
  problem.edge_seconds = {100};
  // 1 + 300 + 2, F and B, 102, B.
  EXPECT_EQ(Time("gpipe", problem).timeline.lower_bound, 410);
  EXPECT_GE(Time("1f1b", problem).timeline.makespan, 410);
  // Forwards alone have one direction.
  const Timeline forward = Time("forward_only", problem).timeline;
  EXPECT_EQ(forward.lower_bound, 304);
  EXPECT_EQ(forward.makespan, 304);
}

TEST(SimulatorTest, EdgesTakeTimeBetweenWorkersAlone) {
  constexpr auto F = v1::ACTION_KIND_FORWARD;
  ScheduleProblem problem = {.num_workers = 2, .num_chunks = 2, .num_micro_batches = 1};
  problem.edge_seconds = {10, 100, 1000};
  const v1::ComputeTable v_shape =
      TableOf(4, 1, {{MakeAction(F, 0, 0), MakeAction(F, 3, 0)}, {MakeAction(F, 1, 0), MakeAction(F, 2, 0)}});
  const absl::StatusOr<Timeline> timeline = Simulate(v_shape, problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->makespan, 1014);
  EXPECT_EQ(timeline->lower_bound, 1014);
}

TEST(SimulatorTest, NamesTheActionsThatWaitForever) {
  constexpr auto F = v1::ACTION_KIND_FORWARD;
  constexpr auto B = v1::ACTION_KIND_BACKWARD;
  const absl::StatusOr<Timeline> timeline =
      Simulate(TableOf(2, 1, {{MakeAction(F, 0, 0), MakeAction(B, 0, 0)}, {MakeAction(F, 1, 0)}}), Uniform(2, 1, {}));
  EXPECT_EQ(timeline.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(timeline.status().message()), HasSubstr("0B0 on worker 0"));
}

TEST(SimulatorTest, RejectsTablesThatAreNotWhatTheySay) {
  constexpr auto F = v1::ACTION_KIND_FORWARD;
  const ScheduleProblem problem = Uniform(2, 1, {});
  EXPECT_FALSE(Simulate(TableOf(2, 1, {}), problem).ok());
  EXPECT_FALSE(Simulate(TableOf(3, 1, {{}, {}}), problem).ok());
  EXPECT_FALSE(Simulate(TableOf(2, 1, {{MakeAction(F, 2, 0)}, {}}), problem).ok());
  EXPECT_FALSE(Simulate(TableOf(2, 1, {{MakeAction(F, 0, 1)}, {}}), problem).ok());
  EXPECT_FALSE(Simulate(TableOf(2, 1, {{MakeAction(v1::ACTION_KIND_LOAD, 0, 0)}, {}}), problem).ok());
  EXPECT_FALSE(Simulate(TableOf(4, 1, {{}, {}}), problem).ok());
  const std::vector<std::vector<v1::Action>> both = {{MakeAction(F, 0, 0)}, {MakeAction(F, 1, 0), MakeAction(F, 0, 0)}};
  EXPECT_THAT(std::string(Simulate(TableOf(2, 1, both), problem).status().message()), HasSubstr("stage 0 is on"));
  ScheduleProblem negative = problem;
  negative.cost_of_stage[1].forward = -1;
  EXPECT_THAT(
      std::string(Simulate(TableOf(2, 1, {{MakeAction(F, 0, 0)}, {MakeAction(F, 1, 0)}}), negative).status().message()),
      HasSubstr("the forward of stage 1 is -1"));
}

TEST(SimulatorTest, StagesThatCostNothingHaveNoBubble) {
  const Timeline timeline = Time("1f1b", Uniform(3, 2, {0, 0, 0})).timeline;
  EXPECT_THAT(timeline.bubble_ratio_span, DoubleNear(0, 0));
  EXPECT_THAT(timeline.bubble_ratio_device, DoubleNear(0, 0));
}

}  // namespace
}  // namespace stagecoach
