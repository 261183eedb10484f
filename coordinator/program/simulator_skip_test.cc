// Skip edges in simulated time: hand-computed cases, and what holds for any of them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "coordinator/program/critical_path.h"
#include "coordinator/program/idle_time.h"
#include "coordinator/program/simulator.h"
#include "coordinator/program/testing/action.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr auto kF = v1::ACTION_KIND_FORWARD;

ScheduleProblem Problem(uint32_t num_workers, uint32_t num_micro_batches, const std::vector<SkipCost>& skips) {
  ScheduleProblem problem;
  problem.num_workers = num_workers;
  problem.num_micro_batches = num_micro_batches;
  problem.skip_edges = skips;
  return problem;
}

Timeline Time(absl::string_view schedule, const ScheduleProblem& problem) {
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  EXPECT_TRUE(table.ok()) << table.status();
  const absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *timeline;
}

// The times at which the F of a worker start.
std::vector<double> ForwardStarts(const Timeline& timeline, size_t worker) {
  std::vector<double> starts;
  for (const TimedAction& timed : timeline.workers[worker]) {
    if (timed.action.kind() == kF) starts.push_back(timed.start);
  }
  return starts;
}

// "0F0 -5.5-> 2F0 2B0": hops as arrows, waits for the worker as spaces.
std::string PathText(const Timeline& timeline) {
  std::string text;
  for (const PathStep& step : CriticalPath(timeline)) {
    if (step.start.cause == WaitCause::kInput) absl::StrAppend(&text, " -", step.start.hop_seconds, "-> ");
    if (step.start.cause == WaitCause::kOrder) absl::StrAppend(&text, " ");
    absl::StrAppend(&text, ActionText(step.timed.action));
  }
  return text;
}

// 0F0 ends at 1. By the chain its result is at stage 2 at 1.5 + 1 + 0.5 = 3; over the skip edge at 1 + 5 + 0.5 = 6.5.
// 2B0 ends at 9.5, and its gradients are at stage 0 at 12.5 and at 15.
TEST(SimulatorSkipTest, ATransferThatIsSlowerThanTheChainIsWaitedFor) {
  ScheduleProblem problem = Problem(3, 1, {{.from_stage = 0, .to_stage = 2, .seconds = 5, .has_gradient = true}});
  problem.communication_seconds = 0.5;
  Timeline timeline = Time("1f1b", problem);
  EXPECT_EQ(ForwardStarts(timeline, 2), std::vector<double>{6.5});
  EXPECT_EQ(timeline.makespan, 17);
  EXPECT_EQ(PathText(timeline), "0F0 -5.5-> 2F0 2B0 -5.5-> 0B0");
  EXPECT_EQ(SharesOf(CriticalPath(timeline), 3).hop_seconds, 11);
  const std::vector<IdleTime> idle = IdleByCause(timeline);
  EXPECT_EQ(idle[2].warm_up, 1);
  EXPECT_EQ(idle[2].transfer, 5.5 + 5.5);
  EXPECT_EQ(idle[2].drain, 2);

  problem.skip_edges[0].has_gradient = false;
  timeline = Time("1f1b", problem);
  EXPECT_EQ(timeline.makespan, 14.5);
  EXPECT_EQ(PathText(timeline), "0F0 -5.5-> 2F0 2B0 -0.5-> 1B0 -0.5-> 0B0");
}

TEST(SimulatorSkipTest, ATransferThatIsFasterThanTheChainCostsNothing) {
  ScheduleProblem problem = Problem(3, 1, {{.from_stage = 0, .to_stage = 2, .seconds = 1, .has_gradient = true}});
  problem.communication_seconds = 0.5;
  const Timeline timeline = Time("1f1b", problem);
  EXPECT_EQ(timeline.makespan, 11);
  EXPECT_EQ(timeline.lower_bound, 11);
  EXPECT_EQ(PathText(timeline), "0F0 -0.5-> 1F0 -0.5-> 2F0 2B0 -0.5-> 1B0 -0.5-> 0B0");
}

TEST(SimulatorSkipTest, TransfersOnOneDirectionGoOneAfterAnother) {
  const Timeline timeline =
      Time("gpipe", Problem(3, 3, {{.from_stage = 0, .to_stage = 2, .seconds = 5, .has_gradient = true}}));
  // Sent at 1, 2, 3; there at 6, 11, 16.
  EXPECT_THAT(ForwardStarts(timeline, 2), testing::ElementsAre(6, 11, 16));
  // B end at 19, 21, 23; their gradients are there at 24, 29, 34.
  EXPECT_EQ(timeline.makespan, 36);
}

TEST(SimulatorSkipTest, EachEdgeIsOccupiedByItsOwnTransfersAlone) {
  // From one stage to two: both are there at 6.
  const SkipCost far = {.from_stage = 0, .to_stage = 3, .seconds = 5};
  const SkipCost near = {.from_stage = 0, .to_stage = 2, .seconds = 5};
  const Timeline two = Time("forward_only", Problem(4, 1, {near, far}));
  EXPECT_EQ(ForwardStarts(two, 2), std::vector<double>{6});
  EXPECT_EQ(ForwardStarts(two, 3), std::vector<double>{7});
  // Beside the edge of the chain.
  ScheduleProblem beside = Problem(2, 1, {{.from_stage = 0, .to_stage = 1, .seconds = 5}});
  beside.edge_seconds = {3};
  EXPECT_EQ(ForwardStarts(Time("forward_only", beside), 1), std::vector<double>{6});
  beside.edge_seconds = {7};
  EXPECT_EQ(ForwardStarts(Time("forward_only", beside), 1), std::vector<double>{8});
}

TEST(SimulatorSkipTest, WithinAWorkerItTakesNoTime) {
  ScheduleProblem problem = Problem(2, 1, {{.from_stage = 0, .to_stage = 3, .seconds = 100}});
  problem.num_chunks = 2;
  problem.communication_seconds = 0.5;
  v1::ComputeTable v_shape = EmptyTable(problem, "test");
  for (const uint32_t stage : {0u, 3u}) *v_shape.mutable_workers(0)->add_actions() = MakeAction(kF, stage, 0);
  for (const uint32_t stage : {1u, 2u}) *v_shape.mutable_workers(1)->add_actions() = MakeAction(kF, stage, 0);
  EXPECT_EQ(Simulate(v_shape, problem)->makespan, 5);
  problem.skip_edges[0].to_stage = 2;
  EXPECT_EQ(Simulate(v_shape, problem)->makespan, 1 + 100.5 + 1 + 0.5 + 1);
}

TEST(SimulatorSkipTest, EdgesThatLeadNowhereAreRefused) {
  v1::ComputeTable table = *(*FindSchedule("gpipe"))->Build(Problem(2, 1, {}));
  const ScheduleProblem beyond = Problem(2, 1, {{.from_stage = 0, .to_stage = 2}});
  EXPECT_EQ(Simulate(table, beyond).status().code(), absl::StatusCode::kInvalidArgument);
  const ScheduleProblem back = Problem(2, 1, {{.from_stage = 1, .to_stage = 0}});
  EXPECT_EQ(Simulate(table, back).status().code(), absl::StatusCode::kInvalidArgument);
}

std::vector<SkipCost> AllPairs(uint32_t num_stages, double seconds) {
  std::vector<SkipCost> skips;
  for (uint32_t from = 0; from < num_stages; ++from) {
    for (uint32_t to = from + 1; to < num_stages; ++to) skips.push_back({from, to, seconds, true});
  }
  return skips;
}

// What runs without skip edges runs with them, as the chain demands their order; and it is never shorter.
TEST(SimulatorSkipTest, EveryScheduleRunsWithSkipEdgesBetweenAllStages) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    for (const double latency : {0.0, 0.25}) {
      ScheduleProblem problem = Problem(3, 7, {});
      problem.num_chunks = schedule->default_chunks();
      problem.communication_seconds = latency;
      const v1::ComputeTable table = *schedule->Build(problem);
      const double without = Simulate(table, problem)->makespan;
      problem.skip_edges = AllPairs(problem.num_workers * problem.num_chunks, 0);
      EXPECT_EQ(Simulate(table, problem)->makespan, without) << schedule->name();
      problem.skip_edges = AllPairs(problem.num_workers * problem.num_chunks, 3);
      const absl::StatusOr<Timeline> slow = Simulate(table, problem);
      ASSERT_TRUE(slow.ok()) << slow.status();
      EXPECT_GT(slow->makespan, without) << schedule->name();
      EXPECT_LE(slow->lower_bound, slow->makespan);
    }
  }
}

}  // namespace
}  // namespace stagecoach
