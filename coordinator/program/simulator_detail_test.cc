// Critical path, idle time by cause and memory curve: hand-computed cases, and what holds for any timeline.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/action_text.h"
#include "coordinator/program/critical_path.h"
#include "coordinator/program/idle_time.h"
#include "coordinator/program/memory_curve.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::DoubleNear;

constexpr double kRounding = 1e-9;

ScheduleProblem Problem(uint32_t num_micro_batches, std::vector<StageCost> costs, double communication_seconds = 0) {
  ScheduleProblem problem;
  problem.num_workers = static_cast<uint32_t>(costs.size());
  problem.num_micro_batches = num_micro_batches;
  problem.cost_of_stage = std::move(costs);
  problem.communication_seconds = communication_seconds;
  return problem;
}

Timeline Time(absl::string_view schedule, const ScheduleProblem& problem) {
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  EXPECT_TRUE(table.ok()) << table.status();
  const absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *timeline;
}

// "0F0 -1-> 1F0 1B0 -1-> 0B0": hops as arrows, waits for the worker as spaces.
std::string PathText(const Timeline& timeline) {
  std::string text;
  for (const PathStep& step : CriticalPath(timeline)) {
    if (step.start.cause == WaitCause::kInput) absl::StrAppend(&text, " -", step.start.hop_seconds, "-> ");
    if (step.start.cause == WaitCause::kOrder) absl::StrAppend(&text, " ");
    absl::StrAppend(&text, ActionText(step.timed.action));
  }
  return text;
}

void ExpectIdle(const IdleTime& idle, const IdleTime& wanted, const std::string& where) {
  EXPECT_NEAR(idle.warm_up, wanted.warm_up, kRounding) << where;
  EXPECT_NEAR(idle.drain, wanted.drain, kRounding) << where;
  EXPECT_NEAR(idle.imbalance, wanted.imbalance, kRounding) << where;
  EXPECT_NEAR(idle.transfer, wanted.transfer, kRounding) << where;
  EXPECT_NEAR(idle.order, wanted.order, kRounding) << where;
}

void ExpectIdle(const Timeline& timeline, const std::vector<IdleTime>& wanted) {
  const std::vector<IdleTime> idle = IdleByCause(timeline);
  ASSERT_EQ(idle.size(), wanted.size());
  for (size_t worker = 0; worker < idle.size(); ++worker) {
    ExpectIdle(idle[worker], wanted[worker], absl::StrCat("worker ", worker));
  }
}

// With F = 1 and B = 2, in slots of 1:
//   worker 0  0F0 0F1  .   .  0B0 0B0  .  0B1 0B1
//   worker 1   .  1F0 1B0 1B0 1F1 1B1 1B1  .   .
TEST(CriticalPathTest, RunsDownOnceThroughTheLastWorkerAndUpAgain) {
  const Timeline timeline = Time("1f1b", Problem(2, {{1, 1, 1}, {1, 1, 1}}));
  EXPECT_EQ(PathText(timeline), "0F0 -0-> 1F0 1B0 1F1 1B1 -0-> 0B1");
}

TEST(CriticalPathTest, ShowsHopsAsPartOfItsLength) {
  const Timeline timeline = Time("1f1b", Problem(1, {{1, 1, 1}, {1, 1, 1}}, 0.5));
  EXPECT_EQ(PathText(timeline), "0F0 -0.5-> 1F0 1B0 -0.5-> 0B0");
  const PathShares shares = SharesOf(CriticalPath(timeline), 2);
  EXPECT_THAT(shares.seconds_of_stage, testing::ElementsAre(3, 3));
  EXPECT_EQ(shares.hop_seconds, 1);
}

TEST(CriticalPathTest, StaysOnTheSlowStage) {
  const Timeline timeline = Time("gpipe", Problem(3, {{1, 1, 1}, {4, 4, 4}, {1, 1, 1}}));
  EXPECT_EQ(PathText(timeline), "0F0 -0-> 1F0 1F1 1F2 -0-> 2F2 2B0 -0-> 1B0 1B1 1B2 -0-> 0B2");
}

TEST(CriticalPathTest, ATransferThatFindsItsEdgeOccupiedIsOneLongHop) {
  ScheduleProblem problem = Problem(2, {{1, 0, 0}, {1, 0, 0}});
  problem.edge_seconds = {3};
  // The transfer of micro-batch 0 occupies the edge from 1 to 4, that of micro-batch 1 from 4 to 7.
  EXPECT_EQ(PathText(Time("forward_only", problem)), "0F0 0F1 -5-> 1F1");
}

TEST(IdleTimeTest, EqualStagesWaitInWarmUpAndDrainAlone) {
  ExpectIdle(Time("1f1b", Problem(2, {{1, 1, 1}, {1, 1, 1}})),
             {{.warm_up = 2, .drain = 1}, {.warm_up = 1, .drain = 2}});
}

TEST(IdleTimeTest, HopsAreTransferWhereverTheyStandOnTheChain) {
  // 0F0 ends at 1; 1F0 runs from 1.5 to 2.5, 1B0 to 4.5; 0B0 from 5 to 7.
  ExpectIdle(Time("1f1b", Problem(1, {{1, 1, 1}, {1, 1, 1}}, 0.5)),
             {{.warm_up = 3, .transfer = 1}, {.warm_up = 1, .drain = 2, .transfer = 1}});
}

// F = B = 1 on worker 0 and 3 on worker 1, which is busy from 1 to 25. Worker 0 has 16 less to do. It waits 5 for its
// first backward, 4 between, 4 + 5 after its last forward: 4 of the 16 are the wait between, 12 come from 5 + 9.
TEST(IdleTimeTest, WhatALesserLoadLeavesIsImbalance) {
  ExpectIdle(Time("1f1b", Problem(4, {{1, 0.5, 0.5}, {3, 1.5, 1.5}})),
             {{.warm_up = 5.0 / 7, .drain = 9.0 / 7, .imbalance = 16}, {.warm_up = 1, .drain = 1}});
}

TEST(IdleTimeTest, ForwardsAloneFillAndDrain) {
  ExpectIdle(Time("forward_only", Problem(2, {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}})),
             {{.drain = 2}, {.warm_up = 1, .drain = 1}, {.warm_up = 2}});
}

v1::ComputeTable TwoWorkers(const std::vector<std::string>& rows);

// Between two forwards worker 1 waits for a forward that worker 0 puts behind a backward.
TEST(IdleTimeTest, WaitsForAnActionThatCameLaterThanItCouldAreOrder) {
  const ScheduleProblem problem = Problem(2, {{1, 1, 1}, {1, 1, 1}});
  const absl::StatusOr<Timeline> timeline = Simulate(TwoWorkers({"F0 B0 F1 B1", "F0 B0 F1 B1"}), problem);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  // Worker 0: F0 0-1, B0 4-6, F1 6-7, B1 10-12. Worker 1: F0 1-2, B0 2-4, F1 7-8, B1 8-10.
  ExpectIdle(*timeline, {{.warm_up = 3, .drain = 3}, {.warm_up = 1, .drain = 2, .order = 3}});
}

TEST(MemoryCurveTest, RisesWithForwardsAndFallsWithWeightGradients) {
  // Worker 0: F0 0-1, F1 1-2, B0 4-6, B1 7-9. Worker 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7.
  const std::vector<std::vector<MemoryPoint>> curves = MemoryCurves(Time("1f1b", Problem(2, {{1, 1, 1}, {1, 1, 1}})));
  const auto text = [&curves](size_t worker) {
    return absl::StrJoin(curves[worker], " ", [](std::string* out, const MemoryPoint& point) {
      absl::StrAppend(out, point.seconds, ":", point.activations, "/", point.pending_weight);
    });
  };
  EXPECT_EQ(text(0), "0:1/0 1:2/0 4:2/1 6:1/0 7:1/1 9:0/0");
  EXPECT_EQ(text(1), "1:1/0 2:1/1 4:0/0 4:1/0 5:1/1 7:0/0");
}

v1::ComputeTable TwoWorkers(const std::vector<std::string>& rows) {
  v1::ComputeTable table;
  table.set_num_stages(2);
  table.set_num_micro_batches(2);
  for (uint32_t stage = 0; stage < rows.size(); ++stage) {
    v1::WorkerActions& row = *table.add_workers();
    for (size_t at = 0; at < rows[stage].size(); at += 3) {
      v1::Action& action = *row.add_actions();
      action.set_kind(rows[stage][at] == 'F' ? v1::ACTION_KIND_FORWARD : v1::ACTION_KIND_BACKWARD);
      action.set_stage(stage);
      action.set_micro_batch(static_cast<uint32_t>(rows[stage][at + 1] - '0'));
    }
  }
  return table;
}

// Of any stages and times, some slower than the chain.
std::vector<SkipCost> RandomSkips(uint32_t num_stages, std::mt19937& random) {
  std::vector<SkipCost> skips;
  for (uint32_t from = 0; from + 1 < num_stages; ++from) {
    const uint32_t to = from + 1 + static_cast<uint32_t>(random() % (num_stages - from - 1));
    if (random() % 2 == 0) skips.push_back({from, to, static_cast<double>(random() % 9), random() % 2 == 0});
  }
  return skips;
}

// Problems of every schedule: uneven stages, hops, occupied edges, skip edges.
std::vector<Timeline> RandomTimelines() {
  std::mt19937 random(11);
  std::mt19937 skip_random(12);
  std::uniform_real_distribution<double> seconds(0.1, 4);
  std::vector<Timeline> timelines;
  for (uint32_t trial = 0; trial < 120; ++trial) {
    for (const Schedule* schedule : AllSchedules()) {
      if (schedule->name() == "auto") continue;  // searches for seconds
      ScheduleProblem problem;
      problem.num_workers = 1 + trial % 6;
      problem.num_chunks = schedule->default_chunks();
      problem.num_micro_batches = 1 + trial % 11;
      const uint32_t num_stages = problem.num_workers * problem.num_chunks;
      for (uint32_t stage = 0; stage < num_stages; ++stage) {
        problem.cost_of_stage.push_back({seconds(random), seconds(random), seconds(random)});
      }
      if (trial % 3 > 0) problem.communication_seconds = seconds(random) / 4;
      if (trial % 3 > 1) problem.edge_seconds.assign(num_stages - 1, seconds(random) / 3);
      if (trial % 5 > 2) problem.skip_edges = RandomSkips(num_stages, skip_random);
      timelines.push_back(Time(schedule->name(), problem));
    }
  }
  return timelines;
}

TEST(CriticalPathTest, ActionsAndHopsAddUpToTheMakespanAndTouch) {
  for (const Timeline& timeline : RandomTimelines()) {
    const std::vector<PathStep> path = CriticalPath(timeline);
    ASSERT_FALSE(path.empty());
    double length = 0;
    double end = 0;
    for (const PathStep& step : path) {
      EXPECT_NEAR(step.timed.start, end + step.start.hop_seconds, kRounding);
      end = step.timed.end;
      length += step.timed.end - step.timed.start + step.start.hop_seconds;
    }
    EXPECT_NEAR(length, timeline.makespan, kRounding);
    EXPECT_EQ(path.front().start.cause, WaitCause::kStart);
  }
}

TEST(IdleTimeTest, CausesAddUpToWhatIsNotBusyAndNoneIsNegative) {
  for (const Timeline& timeline : RandomTimelines()) {
    const std::vector<IdleTime> idle = IdleByCause(timeline);
    for (size_t worker = 0; worker < idle.size(); ++worker) {
      double busy = 0;
      for (const TimedAction& timed : timeline.workers[worker]) busy += timed.end - timed.start;
      EXPECT_NEAR(idle[worker].sum(), timeline.makespan - busy, kRounding);
      for (const double part : {idle[worker].warm_up, idle[worker].drain, idle[worker].imbalance, idle[worker].transfer,
                                idle[worker].order}) {
        EXPECT_GE(part, -kRounding);
      }
    }
    const double all = timeline.makespan * static_cast<double>(idle.size());
    EXPECT_NEAR(Total(idle).sum(), all * timeline.bubble_ratio_span, kRounding * all);
  }
}

TEST(MemoryCurveTest, MaximaAreThePeaksAndAStepEndsWithNothing) {
  for (const Timeline& timeline : RandomTimelines()) {
    const std::vector<std::vector<MemoryPoint>> curves = MemoryCurves(timeline);
    for (size_t worker = 0; worker < curves.size(); ++worker) {
      MemoryPoint peak;
      double seconds = 0;
      for (const MemoryPoint& point : curves[worker]) {
        EXPECT_GE(point.seconds, seconds);
        seconds = point.seconds;
        peak.activations = std::max(peak.activations, point.activations);
        peak.pending_weight = std::max(peak.pending_weight, point.pending_weight);
      }
      EXPECT_THAT(peak.activations, DoubleNear(timeline.peak_activations[worker], kRounding));
      EXPECT_THAT(peak.pending_weight, DoubleNear(timeline.peak_pending_weight[worker], kRounding));
      EXPECT_EQ(curves[worker].back().activations, 0);
      EXPECT_EQ(curves[worker].back().pending_weight, 0);
    }
  }
}

}  // namespace
}  // namespace stagecoach
