#include "coordinator/schedule/auto_list_scheduler.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/auto_random.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

ScheduleProblem RandomProblem(AutoRandom& random) {
  ScheduleProblem problem;
  problem.num_workers = 1 + random.Below(5);
  problem.num_chunks = 1 + random.Below(3);
  problem.num_micro_batches = 1 + random.Below(12);
  problem.communication_seconds = random.Coin() ? random.Unit() : 0;
  const uint32_t num_stages = problem.num_workers * problem.num_chunks;
  for (uint32_t stage = 0; stage < num_stages; ++stage) {
    // Some take no time at all.
    const auto seconds = [&random] { return random.Below(8) == 0 ? 0.0 : random.Unit(); };
    problem.cost_of_stage.push_back({seconds(), seconds(), seconds()});
    if (stage > 0) problem.edge_seconds.push_back(random.Coin() ? random.Unit() : 0);
  }
  for (uint32_t worker = 0; worker < problem.num_workers; ++worker) {
    problem.memory_limit.push_back(1 + random.Below(4 * problem.num_chunks) * 1.0 / problem.num_chunks);
  }
  return problem;
}

AutoKeys RandomKeys(AutoRandom& random, const AutoGraph& graph) {
  AutoKeys keys;
  for (uint32_t index = 0; index < graph.size(); ++index) keys.key.push_back(random.Unit());
  for (uint32_t worker = 0; worker < graph.num_workers(); ++worker) {
    keys.depth.push_back(graph.num_chunks() + random.Below(6));
  }
  keys.patience = random.Coin() ? 0 : 1.5 * random.Unit();
  return keys;
}

// The most forwards of a row whose I has not run.
uint32_t Depth(const AutoGraph& graph, const std::vector<uint32_t>& row) {
  uint32_t in_flight = 0;
  uint32_t depth = 0;
  for (const uint32_t index : row) {
    if (graph.node(index).kind == AutoKind::kForward) depth = std::max(depth, ++in_flight);
    if (graph.node(index).kind == AutoKind::kBackwardInput) --in_flight;
  }
  return depth;
}

TEST(AutoListSchedulerTest, WhateverTheKeysItEndsWithinMemoryDepthAndRoom) {
  AutoRandom random(1);
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(absl::StrCat("instance ", i));
    const ScheduleProblem problem = RandomProblem(random);
    const bool is_v = problem.num_chunks == 2 && random.Coin();
    const AutoGraph graph(problem, is_v ? StagePlacement::kV : StagePlacement::kLoop);
    const AutoKeys keys = RandomKeys(random, graph);
    AutoListScheduler scheduler(graph);
    const AutoCost cost = scheduler.Run(keys);
    ASSERT_TRUE(graph.Accepts(scheduler.rows()));
    for (uint32_t worker = 0; worker < graph.num_workers(); ++worker) {
      EXPECT_LE(Depth(graph, scheduler.rows()[worker]), keys.depth[worker]);
    }
    AutoTiming timing(graph);
    EXPECT_TRUE(timing.RunWithRooms(scheduler.rows()));
    ASSERT_TRUE(timing.Run(scheduler.rows()));
    EXPECT_LE(timing.cost().worst, cost.worst) << "its rows need not wait as it did";
    if (keys.patience == 0 && problem.num_micro_batches <= kMaxUnread) {
      EXPECT_LE(cost.worst, timing.cost().worst * (1 + 1e-12)) << "nor did it, but for an action of no time";
    }
  }
}

TEST(AutoListSchedulerTest, KeysDecideBetweenWhatIsReady) {
  const ScheduleProblem problem = {.num_workers = 1, .num_micro_batches = 2};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoListScheduler scheduler(graph);
  // F0 F1 I0 I1 W0 W1 are nodes 0 to 5.
  scheduler.Run({.key = {0, 1, 2, 3, 4, 5}, .depth = {2}});
  EXPECT_EQ(scheduler.rows()[0], (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  scheduler.Run({.key = {0, 3, 1, 4, 2, 5}, .depth = {2}});
  EXPECT_EQ(scheduler.rows()[0], (std::vector<uint32_t>{0, 2, 4, 1, 3, 5}));
  scheduler.Run({.key = {0, 1, 2, 3, 4, 5}, .depth = {1}});
  EXPECT_EQ(scheduler.rows()[0], (std::vector<uint32_t>{0, 2, 1, 3, 4, 5})) << "depth holds F1 back until I0";
}

TEST(AutoListSchedulerTest, AForwardWithoutMemoryLendsItsKeyToAWeight) {
  const ScheduleProblem problem = {.num_workers = 1, .num_micro_batches = 3, .memory_limit = {2}};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoListScheduler scheduler(graph);
  // F0 F1 F2 I0 I1 I2 W0 W1 W2: once I0 has run, F2 before I1, for which W0 comes first although its key is the last.
  scheduler.Run({.key = {0, 1, 2, 3, 4, 5, 6, 7, 8}, .depth = {3}});
  EXPECT_EQ(scheduler.rows()[0], (std::vector<uint32_t>{0, 1, 3, 6, 2, 4, 5, 7, 8}));
}

TEST(AutoListSchedulerTest, PatienceWaitsForAnInputThatIsNear) {
  ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2};
  problem.communication_seconds = 0.25;
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoListScheduler scheduler(graph);
  AutoKeys keys = {.key = std::vector<double>(graph.size()), .depth = {2, 1}};
  const auto weight_before_last_input = [&](double patience) {
    keys.patience = patience;
    scheduler.Run(keys);
    const std::vector<uint32_t>& row = scheduler.rows()[0];
    return std::find(row.begin(), row.end(), graph.Index(0, AutoKind::kBackwardWeight, 0)) <
           std::find(row.begin(), row.end(), graph.Index(0, AutoKind::kBackwardInput, 1));
  };
  // Worker 0 is free at 4.5, when I0 has run; I1 comes from worker 1 at 5.5.
  EXPECT_TRUE(weight_before_last_input(1));
  EXPECT_FALSE(weight_before_last_input(1.1));
}

}  // namespace
}  // namespace stagecoach
