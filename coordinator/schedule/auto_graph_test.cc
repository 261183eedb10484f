#include "coordinator/schedule/auto_graph.h"

#include <limits>
#include <utility>

#include "coordinator/schedule/auto_timing.h"
#include "coordinator/schedule/compute_csv.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

v1::ComputeTable OneForwardOneBackward(const ScheduleProblem& problem) {
  return *(*FindSchedule("1f1b"))->Build(problem);
}

TEST(AutoGraphTest, AWholeBackwardBecomesItsTwoParts) {
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  const AutoRows rows = graph.RowsOf(OneForwardOneBackward(problem));
  EXPECT_TRUE(graph.Accepts(rows));
  EXPECT_EQ(ComputeCsv(graph.TableOf(rows, "auto")),
            "0F0,0F1,0I0,0W0,0I1,0W1\n"
            "1F0,1I0,1W0,1F1,1I1,1W1\n");
}

TEST(AutoGraphTest, AcceptsCompleteRowsInMicroBatchOrderAlone) {
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 3};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  const AutoRows good = graph.RowsOf(OneForwardOneBackward(problem));
  AutoRows missing = good;
  missing[1].pop_back();
  EXPECT_FALSE(graph.Accepts(missing));
  AutoRows twice = good;
  twice[1].back() = twice[1][0];
  EXPECT_FALSE(graph.Accepts(twice));
  AutoRows disordered = good;
  std::swap(disordered[0][0], disordered[0][1]);  // F0 and F1
  EXPECT_FALSE(graph.Accepts(disordered));
}

TEST(AutoGraphTest, AcceptsWhatEachWorkerMayHold) {
  ScheduleProblem problem = {.num_workers = 3, .num_micro_batches = 4};
  const AutoRows rows = AutoGraph(problem, StagePlacement::kLoop).RowsOf(OneForwardOneBackward(problem));
  problem.memory_limit = {3, 2, 1};
  EXPECT_TRUE(AutoGraph(problem, StagePlacement::kLoop).Accepts(rows));
  for (size_t worker = 0; worker < 3; ++worker) {
    ScheduleProblem tighter = problem;
    tighter.memory_limit[worker] -= 0.5;
    EXPECT_FALSE(AutoGraph(tighter, StagePlacement::kLoop).Accepts(rows)) << worker;
  }
}

TEST(AutoGraphTest, AChunkIsAPartOfAMicroBatchInMemory) {
  ScheduleProblem problem = {.num_workers = 2, .num_chunks = 3, .num_micro_batches = 5};
  EXPECT_EQ(AutoGraph(problem, StagePlacement::kLoop).capacity(0), 15u);
  problem.memory_limit = {4.0 / 3, std::numeric_limits<double>::infinity()};
  EXPECT_EQ(AutoGraph(problem, StagePlacement::kLoop).capacity(0), 4u) << "three times 4/3 is not below 4";
  EXPECT_EQ(AutoGraph(problem, StagePlacement::kLoop).capacity(1), 15u);
}

TEST(AutoGraphTest, HopsAreBetweenWorkersAlone) {
  ScheduleProblem problem = {.num_workers = 2, .num_chunks = 2, .num_micro_batches = 6};
  problem.communication_seconds = 0.5;
  problem.edge_seconds = {1, 2, 4};
  const AutoGraph graph(problem, StagePlacement::kV);  // worker 0 has stages 0 and 3
  const AutoNode& first = graph.node(graph.Index(0, AutoKind::kForward, 5));
  EXPECT_EQ(first.latency, 0.5);
  EXPECT_EQ(first.edge_seconds, 1);
  EXPECT_EQ(first.room, graph.Index(1, AutoKind::kForward, 5 - kMaxUnread));
  const AutoNode& bottom = graph.node(graph.Index(1, AutoKind::kForward, 5));
  EXPECT_EQ(bottom.latency + bottom.edge_seconds, 0);
  EXPECT_EQ(bottom.room, kNoNode);
  EXPECT_EQ(graph.node(graph.Index(3, AutoKind::kBackwardInput, 0)).edge_seconds, 4);
}

TEST(AutoTimingTest, FindsRowsThatWaitForEachOther) {
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoRows rows = graph.RowsOf(OneForwardOneBackward(problem));
  AutoTiming timing(graph);
  EXPECT_TRUE(timing.Run(rows));
  EXPECT_EQ(timing.cost().worst, 8) << "one less than with whole backwards";
  std::swap(rows[0][1], rows[0][2]);  // I0 before F1
  EXPECT_TRUE(timing.Run(rows));
  std::swap(rows[1][1], rows[1][3]);  // F1 before I0 there
  EXPECT_FALSE(timing.Run(rows));
}

TEST(AutoTimingTest, RowsMayWaitForRoomOnAnEdge) {
  // Worker 0 makes 10 forwards before it reads an input gradient; worker 1 makes 5 of those before its sixth forward.
  constexpr uint32_t kBlock = kMaxUnread + 1;
  const ScheduleProblem problem = {.num_workers = 2, .num_micro_batches = 2 * kBlock};
  const AutoGraph graph(problem, StagePlacement::kLoop);
  AutoRows rows = graph.RowsOf(*(*FindSchedule("gpipe"))->Build(problem));
  AutoTiming timing(graph);
  EXPECT_TRUE(timing.RunWithRooms(rows));
  rows[1].clear();
  for (const uint32_t first : {0u, kBlock}) {
    for (const AutoKind kind : {AutoKind::kForward, AutoKind::kBackwardInput, AutoKind::kBackwardWeight}) {
      for (uint32_t i = first; i < first + kBlock; ++i) rows[1].push_back(graph.Index(1, kind, i));
    }
  }
  ASSERT_TRUE(graph.Accepts(rows));
  EXPECT_TRUE(timing.Run(rows));
  EXPECT_FALSE(timing.RunWithRooms(rows));
}

}  // namespace
}  // namespace stagecoach
