// What the schedule `auto` says of its tables against the simulator, and against the search of the Zero Bubble paper.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/auto_random.h"
#include "coordinator/schedule/auto_schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

ScheduleProblem RandomProblem(AutoRandom& random) {
  ScheduleProblem problem = {.num_workers = 1 + random.Below(5), .num_chunks = 1 + random.Below(3)};
  problem.num_micro_batches = 1 + random.Below(3 * problem.num_workers);
  problem.communication_seconds = random.Coin() ? random.Unit() : 0;
  for (uint32_t stage = 0; stage < problem.num_workers * problem.num_chunks; ++stage) {
    problem.cost_of_stage.push_back({0.5 + random.Unit(), 0.5 + random.Unit(), 0.5 + random.Unit()});
    if (stage > 0) problem.edge_seconds.push_back(random.Coin() ? 0 : 2 * random.Unit());
  }
  for (uint32_t worker = 0; worker < problem.num_workers; ++worker) {
    problem.memory_limit.push_back(1 + random.Below(2 * problem.num_workers * problem.num_chunks) * 1.0 /
                                           problem.num_chunks);
  }
  problem.objective = random.Coin() ? Objective::kSpan : Objective::kDevice;
  return problem;
}

double LongestInterval(const Timeline& timeline) {
  double longest = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    longest = std::max(longest, row.back().end - row.front().start);
  }
  return longest;
}

TEST(AutoScheduleSimulationTest, TheSimulatorFindsTheSameTimesAndTheLimitsKept) {
  AutoRandom random(1);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(absl::StrCat("instance ", i));
    const ScheduleProblem problem = RandomProblem(random);
    const AutoResult result = *SearchSchedule(problem, {.effort = 0.02});
    const Timeline timeline = *Simulate(result.table, problem);
    const bool is_span = problem.objective == Objective::kSpan;
    EXPECT_EQ(is_span ? timeline.makespan : LongestInterval(timeline), result.seconds);
    // Of this placement, without memory: it cannot be the higher one.
    if (is_span && problem.num_chunks == 1) {
      EXPECT_GE(result.lower_bound_seconds, timeline.lower_bound * (1 - 1e-12));
    }
    for (size_t worker = 0; worker < problem.num_workers; ++worker) {
      EXPECT_LE(timeline.peak_activations[worker], problem.memory_limit[worker] + 1e-9);
    }
  }
}

// Table 9 of the Zero Bubble paper and, from its Table 5, the bubble rates that its own search reaches (ZB-1p, ZB-2p).
struct PublishedRow {
  uint32_t num_micro_batches;
  StageCost cost;
  double communication_seconds;
  double one_stage_memory;
  double two_stage_memory;
};
const PublishedRow kPublishedRows[] = {
    {24, {18.522, 18.086, 9.337}, 0.601, .1585, .0433},  {32, {18.513, 18.086, 9.331}, 0.626, .1242, .0039},
    {64, {18.546, 18.097, 9.321}, 0.762, .0674, .0026},  {24, {29.718, 29.444, 19.927}, 0.527, .1323, .0029},
    {32, {29.802, 29.428, 19.530}, 0.577, .1045, .0022}, {64, {29.935, 29.621, 19.388}, 0.535, .0554, .0010},
};
constexpr uint32_t kPublishedWorkers = 8;
constexpr double kHalfOfTheLastDecimal = 5e-5;

double DeviceBubble(const PublishedRow& row, uint32_t num_chunks, double memory_limit, double effort) {
  ScheduleProblem problem = {.num_workers = kPublishedWorkers,
                             .num_chunks = num_chunks,
                             .num_micro_batches = row.num_micro_batches,
                             .communication_seconds = row.communication_seconds,
                             .memory_limit = std::vector<double>(kPublishedWorkers, memory_limit),
                             .objective = Objective::kDevice};
  problem.cost_of_stage.assign(
      size_t{kPublishedWorkers} * num_chunks,
      {row.cost.forward / num_chunks, row.cost.backward_input / num_chunks, row.cost.backward_weight / num_chunks});
  return Simulate(SearchSchedule(problem, {.effort = effort})->table, problem)->bubble_ratio_device;
}

TEST(AutoScheduleSimulationTest, ReachesThePublishedSearchWithTheMemoryOfOnePipeline) {
  for (const PublishedRow& row : kPublishedRows) {
    SCOPED_TRACE(absl::StrCat("M=", row.num_micro_batches, " F=", row.cost.forward));
    EXPECT_LE(DeviceBubble(row, 1, kPublishedWorkers, 0.1), row.one_stage_memory + kHalfOfTheLastDecimal);
  }
}

// With one chunk the bound is above these: the paper frees a part of an activation at its I, memory_limit counts it
// until its W. Two chunks get there all the same. The other rows take more work than a test may
// (auto_schedule_benchmark).
TEST(AutoScheduleSimulationTest, BeatsThePublishedSearchWithTwiceTheMemoryAndTwoChunks) {
  for (const size_t i : {0u, 3u, 4u}) {
    SCOPED_TRACE(absl::StrCat("row ", i));
    const PublishedRow& row = kPublishedRows[i];
    EXPECT_LE(DeviceBubble(row, 2, 2 * kPublishedWorkers, 0.1), row.two_stage_memory + kHalfOfTheLastDecimal);
  }
}

}  // namespace
}  // namespace stagecoach
