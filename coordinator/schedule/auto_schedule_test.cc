#include "coordinator/schedule/auto_schedule.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/auto_graph.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_timing.h"
#include "coordinator/schedule/compute_csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

ScheduleProblem RandomProblem(AutoRandom& random) {
  ScheduleProblem problem = {.num_workers = 1 + random.Below(5), .num_chunks = 1 + random.Below(3)};
  problem.num_micro_batches = 1 + random.Below(3 * problem.num_workers);
  problem.communication_seconds = random.Coin() ? random.Unit() : 0;
  for (uint32_t stage = 0; stage < problem.num_workers * problem.num_chunks; ++stage) {
    problem.cost_of_stage.push_back({0.5 + random.Unit(), 0.5 + random.Unit(), 0.5 + random.Unit()});
    if (stage > 0) problem.edge_seconds.push_back(random.Coin() ? 0 : random.Unit());
  }
  for (uint32_t worker = 0; worker < problem.num_workers && random.Coin(); ++worker) {
    problem.memory_limit.resize(problem.num_workers, 2 * problem.num_workers);
    problem.memory_limit[worker] = 1 + random.Below(2 * problem.num_workers);
  }
  problem.objective = random.Coin() ? Objective::kSpan : Objective::kDevice;
  return problem;
}

// The best cost of a hand-made table with this placement within the memory limits.
double BestHandMade(const ScheduleProblem& problem, StagePlacement placement) {
  double best = std::numeric_limits<double>::infinity();
  const AutoGraph graph(problem, placement);
  AutoTiming timing(graph);
  for (const Schedule* schedule : HandMadeSchedules()) {
    const bool is_placed = problem.num_chunks == 1 || schedule->placement() == placement;
    if (schedule->forward_only() || !schedule->AcceptsChunks(problem.num_chunks) || !is_placed) continue;
    const AutoRows rows = graph.RowsOf(*schedule->Build(problem));
    if (graph.Accepts(rows) && timing.Run(rows)) best = std::min(best, timing.cost().worst);
  }
  return best;
}

TEST(AutoScheduleTest, StaysInThePlacementThatItIsGiven) {
  const ScheduleProblem problem = {.num_workers = 3, .num_chunks = 2, .num_micro_batches = 6};
  for (const StagePlacement placement : {StagePlacement::kLoop, StagePlacement::kV}) {
    const absl::StatusOr<AutoResult> result = SearchSchedule(problem, {.effort = 0.02, .placement = placement});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->placement, placement);
    EXPECT_EQ((*WorkersOfStages(result->table))[3], WorkerOfStage(placement, 3, 3));
    EXPECT_EQ(AutoSchedule({.effort = 0.02, .placement = placement}).Build(problem)->SerializeAsString(),
              result->table.SerializeAsString());
  }
  const ScheduleProblem of_three = {.num_workers = 3, .num_chunks = 3, .num_micro_batches = 6};
  EXPECT_THAT(std::string(SearchSchedule(of_three, {.placement = StagePlacement::kV}).status().message()),
              HasSubstr("a V of 3 chunks"));
}

TEST(AutoScheduleTest, IsNeverWorseThanAHandMadeScheduleWithinTheMemoryLimits) {
  AutoRandom random(1);
  int num_better = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(absl::StrCat("instance ", i));
    const ScheduleProblem problem = RandomProblem(random);
    const AutoResult result = *SearchSchedule(problem, {.effort = 0.02});
    double hand_made = BestHandMade(problem, StagePlacement::kLoop);
    if (problem.num_chunks == 2) hand_made = std::min(hand_made, BestHandMade(problem, StagePlacement::kV));
    EXPECT_LE(result.seconds, hand_made);
    EXPECT_LE(result.lower_bound_seconds, result.seconds);
    EXPECT_GE(result.gap_ratio(), 0);
    if (result.seconds < hand_made) ++num_better;
    // The table is what the numbers are of.
    const AutoGraph graph(problem, result.placement);
    const AutoRows rows = graph.RowsOf(result.table);
    ASSERT_TRUE(graph.Accepts(rows));
    AutoTiming timing(graph);
    ASSERT_TRUE(timing.Run(rows));
    EXPECT_EQ(timing.cost().worst, result.seconds);
    EXPECT_EQ(result.table.schedule(), "auto");
    if (hand_made == std::numeric_limits<double>::infinity()) {
      EXPECT_EQ(result.best_hand_made, "");
    } else {
      EXPECT_EQ(result.best_hand_made_seconds, hand_made);
    }
  }
  EXPECT_GT(num_better, 60);
}

TEST(AutoScheduleTest, RepeatsItself) {
  AutoRandom random(7);
  for (int i = 0; i < 5; ++i) {
    const ScheduleProblem problem = RandomProblem(random);
    const std::string csv = ComputeCsv(SearchSchedule(problem, {.effort = 0.1})->table);
    EXPECT_EQ(ComputeCsv(SearchSchedule(problem, {.effort = 0.1})->table), csv);
  }
}

TEST(AutoScheduleTest, StopsAtAScheduleThatNothingCanBeat) {
  // Equal stages without latency: zb_h1 is optimal, and the search says so.
  const ScheduleProblem problem = {.num_workers = 4, .num_micro_batches = 12};
  const AutoResult result = *SearchSchedule(problem);
  EXPECT_EQ(result.seconds, 12 * 3 + 3);
  EXPECT_EQ(result.lower_bound_seconds, result.seconds);
  EXPECT_EQ(result.best_hand_made, "zb_h1");
  EXPECT_EQ(result.gap_ratio(), 0);
}

TEST(AutoScheduleTest, MoreMemoryMakesItNoWorse) {
  ScheduleProblem problem = {.num_workers = 4, .num_micro_batches = 8, .communication_seconds = 0.2};
  problem.cost_of_stage = {{1, 1.2, 0.5}, {1.1, 1, 0.7}, {0.9, 1.1, 0.6}, {1.3, 1.4, 0.9}};
  double shorter = std::numeric_limits<double>::infinity();
  for (const double limit : {1.0, 2.0, 3.0, 4.0, 6.0}) {
    problem.memory_limit.assign(4, limit);
    const AutoResult result = *SearchSchedule(problem, {.effort = 0.2});
    EXPECT_LT(result.seconds, shorter * (limit < 4 ? 1 : 1.0001)) << limit;
    shorter = result.seconds;
  }
}

TEST(AutoScheduleTest, RunsWithOneOfEverythingAndWithoutTime) {
  EXPECT_EQ(SearchSchedule({.num_workers = 1, .num_micro_batches = 1})->seconds, 3);
  ScheduleProblem problem = {.num_workers = 3, .num_chunks = 2, .num_micro_batches = 4};
  problem.cost_of_stage.assign(6, {0, 0, 0});
  const AutoResult result = *SearchSchedule(problem);
  EXPECT_EQ(result.seconds, 0);
  EXPECT_EQ(result.gap_ratio(), 0);
}

TEST(AutoScheduleTest, RejectsAWorkerThatMayHoldNothing) {
  const absl::Status status =
      SearchSchedule({.num_workers = 2, .num_micro_batches = 2, .memory_limit = {1, 0.5}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 may hold 0.5 micro-batches"));
}

}  // namespace
}  // namespace stagecoach
