#include "coordinator/plan/searched_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/recomputing_table.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

ScheduleProblem Uneven(uint32_t num_workers, uint32_t num_chunks, uint32_t num_micro_batches) {
  ScheduleProblem problem = {
      .num_workers = num_workers, .num_chunks = num_chunks, .num_micro_batches = num_micro_batches};
  for (uint32_t stage = 0; stage < num_workers * num_chunks; ++stage) {
    problem.cost_of_stage.push_back({1.0 + 0.3 * (stage % 3), 1.2, 0.7, 0.5});
    if (stage > 0) problem.edge_seconds.push_back(0.1);
  }
  return problem;
}

std::vector<uint32_t> WorkersOf(const v1::ComputeTable& table) { return *WorkersOfStages(table); }

TEST(SearchedOrderTest, IsShorterAndHoldsNoMore) {
  const ScheduleProblem problem = Uneven(4, 1, 8);
  for (const char* schedule : {"1f1b", "zb_h1", "gpipe"}) {
    const v1::ComputeTable table = *(*FindSchedule(schedule))->Build(problem);
    const absl::StatusOr<v1::ComputeTable> order = SearchedOrder(problem, table, StagePlacement::kLoop);
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_EQ(order->schedule(), "auto");
    const Timeline before = *Simulate(table, problem);
    const Timeline after = *Simulate(*order, problem);
    EXPECT_LT(after.makespan, before.makespan) << schedule;
    for (size_t worker = 0; worker < 4; ++worker) {
      EXPECT_LE(after.peak_activations[worker], before.peak_activations[worker]) << schedule << " " << worker;
    }
  }
}

TEST(SearchedOrderTest, StagesStayOnTheirWorkers) {
  const ScheduleProblem problem = Uneven(3, 2, 6);
  for (const char* name : {"interleaved", "zb_v"}) {
    const Schedule& schedule = **FindSchedule(name);
    const v1::ComputeTable table = *schedule.Build(problem);
    const absl::StatusOr<v1::ComputeTable> order = SearchedOrder(problem, table, schedule.placement());
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_EQ(WorkersOf(*order), WorkersOf(table)) << name;
  }
}

TEST(SearchedOrderTest, TheSameStagesRecompute) {
  const ScheduleProblem problem = Uneven(3, 1, 5);
  const std::vector<bool> recomputes = {true, false, true};
  const v1::ComputeTable table = *BuildRecomputing(**FindSchedule("1f1b"), problem, recomputes);
  const absl::StatusOr<v1::ComputeTable> order = SearchedOrder(problem, table, StagePlacement::kLoop);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(RecomputingStages(*order), recomputes);
  EXPECT_LE(Simulate(*order, problem)->makespan, Simulate(table, problem)->makespan);
}

TEST(SearchedOrderTest, EqualProblemsHaveEqualOrders) {
  const ScheduleProblem problem = Uneven(4, 2, 8);
  const v1::ComputeTable table = *(*FindSchedule("zb_v"))->Build(problem);
  const auto text = [&] { return SearchedOrder(problem, table, StagePlacement::kV)->SerializeAsString(); };
  EXPECT_EQ(text(), text());
}

TEST(SearchedOrderTest, OneWorkerAndVeryManyActionsAreNotSearched) {
  EXPECT_TRUE(IsSearchable({.num_workers = 2, .num_micro_batches = 1}));
  EXPECT_FALSE(IsSearchable({.num_workers = 1, .num_micro_batches = 8}));
  EXPECT_TRUE(IsSearchable({.num_workers = 64, .num_chunks = 2, .num_micro_batches = 256}));
  EXPECT_FALSE(IsSearchable({.num_workers = 64, .num_chunks = 4, .num_micro_batches = 256}));
}

}  // namespace
}  // namespace stagecoach
