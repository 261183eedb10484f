#include "coordinator/schedule/auto_row_timing.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/auto_random.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

ScheduleProblem RandomProblem(AutoRandom& random, uint32_t num_chunks) {
  ScheduleProblem problem = {.num_workers = 2 + random.Below(3), .num_chunks = num_chunks};
  problem.num_micro_batches = 2 + random.Below(7);
  problem.communication_seconds = random.Coin() ? random.Unit() : 0;
  for (uint32_t stage = 0; stage < problem.num_workers * num_chunks; ++stage) {
    problem.cost_of_stage.push_back({random.Unit(), random.Unit(), random.Unit()});
    if (stage > 0) problem.edge_seconds.push_back(random.Coin() ? 2 * random.Unit() : 0);
  }
  problem.memory_limit.assign(problem.num_workers, problem.num_workers + 1);
  return problem;
}

void ExpectSame(const AutoCost& a, const AutoCost& b) {
  EXPECT_EQ(a.worst, b.worst);
  EXPECT_EQ(a.mean, b.mean);
}

// Random moves: times are those of a run from the start, to the bit; what is refused or taken back leaves no trace.
void MoveAtRandom(AutoRandom& random, const AutoGraph& graph, const AutoRows& rows, int& num_moved) {
  AutoRowTiming incremental(graph, rows);
  AutoTiming whole(graph);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(absl::StrCat("move ", i));
    const AutoRows before = incremental.rows();
    const AutoCost cost_before = incremental.cost();
    const uint32_t worker = random.Below(graph.num_workers());
    const uint32_t size = static_cast<uint32_t>(before[worker].size());
    const bool moved = incremental.Move(worker, random.Below(size), random.Below(size));
    if (moved) {
      ++num_moved;
      ASSERT_TRUE(graph.Accepts(incremental.rows()));
      ASSERT_TRUE(whole.RunWithRooms(incremental.rows()));
      ASSERT_TRUE(whole.Run(incremental.rows()));
      ExpectSame(incremental.cost(), whole.cost());
      if (random.Coin()) continue;
      incremental.Undo();
    }
    ASSERT_EQ(incremental.rows(), before);
    ExpectSame(incremental.cost(), cost_before);
  }
}

TEST(AutoRowTimingTest, MovesAreTimedAsIfFromTheStart) {
  AutoRandom random(1);
  int num_moved = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(absl::StrCat("instance ", i));
    const bool is_v = i % 2 == 1;
    const ScheduleProblem problem = RandomProblem(random, is_v ? 2 : 1);
    const AutoGraph graph(problem, is_v ? StagePlacement::kV : StagePlacement::kLoop);
    const AutoRows rows = graph.RowsOf(*(*FindSchedule(is_v ? "zb_v" : "zb_h1"))->Build(problem));
    MoveAtRandom(random, graph, rows, num_moved);
  }
  EXPECT_GT(num_moved, 1000);
}

TEST(AutoRowTimingTest, RefusesMovesThatBreakAnOrder) {
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2, .memory_limit = {2, 1}};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  // 0F0,0F1,0I0,0W0,0I1,0W1 and 1F0,1I0,1W0,1F1,1I1,1W1
  AutoRowTiming timing(graph, graph.RowsOf(*(*FindSchedule("1f1b"))->Build(problem)));
  EXPECT_FALSE(timing.Move(0, 0, 1)) << "F1 before F0";
  EXPECT_FALSE(timing.Move(0, 3, 2)) << "W0 before I0";
  EXPECT_FALSE(timing.Move(0, 4, 1)) << "I1 before F1";
  EXPECT_FALSE(timing.Move(1, 3, 2)) << "two held, one may be";
  EXPECT_TRUE(timing.Move(0, 1, 3)) << "I0 and W0 before F1";
  EXPECT_TRUE(timing.Move(0, 3, 2)) << "F1 between them";
}

TEST(AutoRowTimingTest, RefusesRowsThatWaitForEachOther) {
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoRowTiming timing(graph, graph.RowsOf(*(*FindSchedule("1f1b"))->Build(problem)));
  ASSERT_TRUE(timing.Move(0, 1, 2)) << "worker 0: I0 before F1";
  EXPECT_FALSE(timing.Move(1, 1, 3)) << "worker 1: F1 before I0";
}

TEST(AutoRowTimingTest, ALongestPathLeadsFromTheFirstActionToTheLast) {
  const ScheduleProblem problem = {.num_workers = 3, .num_micro_batches = 5};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  const AutoRowTiming timing(graph, graph.RowsOf(*(*FindSchedule("gpipe"))->Build(problem)));
  std::vector<AutoRowTiming::Place> places;
  timing.CriticalPlaces(/*coin=*/1, places);
  ASSERT_FALSE(places.empty());
  EXPECT_EQ(places.front().worker, 0u) << "gpipe ends on the first worker";
  EXPECT_EQ(places.front().position, 14u);
  for (const AutoRowTiming::Place& place : places) EXPECT_GT(place.position, 0u);
}

}  // namespace
}  // namespace stagecoach
