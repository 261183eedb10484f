#include "coordinator/schedule/schedule.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/schedule/compute_csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

v1::ComputeTable Table(absl::string_view name, uint32_t p, uint32_t m, uint32_t v = 1) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  absl::StatusOr<v1::ComputeTable> table =
      (*schedule)->Build({.num_workers = p, .num_chunks = v, .num_micro_batches = m});
  EXPECT_TRUE(table.ok()) << table.status();
  return *table;
}

TEST(ScheduleTest, OneForwardOneBackwardRunsWithFewerMicroBatchesThanStages) {
  EXPECT_EQ(ComputeCsv(Table("1f1b", 4, 2)),
            "0F0,0F1,0B0,0B1\n"
            "1F0,1F1,1B0,1B1\n"
            "2F0,2F1,2B0,2B1\n"
            "3F0,3B0,3F1,3B1\n");
}

TEST(ScheduleTest, GpipeRunsBackwardsInMicroBatchOrder) {
  EXPECT_EQ(ComputeCsv(Table("gpipe", 2, 3)), "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
}

TEST(ScheduleTest, InterleavedGroupsAreAsEqualAsTheyCanBe) {
  // Five micro-batches on two workers: groups of three and two.
  EXPECT_EQ(ComputeCsv(Table("interleaved", 2, 5, 2)),
            "0F0,0F1,0F2,2F0,2F1,2F2,2B0,0F3,2B1,0F4,2B2,2F3,0B0,2F4,0B1,0B2,2B3,2B4,0B3,0B4\n"
            "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1F3,1B0,1F4,1B1,3F3,1B2,3F4,3B3,3B4,1B3,1B4\n");
}

TEST(ScheduleTest, InterleavedWithOneChunkIsOneForwardOneBackward) {
  EXPECT_EQ(ComputeCsv(Table("interleaved", 4, 7, 1)), ComputeCsv(Table("1f1b", 4, 7)));
}

TEST(ScheduleTest, AutoIsTheOneScheduleThatNobodyMade) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule("auto");
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ((*schedule)->name(), "auto");
  EXPECT_EQ(HandMadeSchedules().size() + 1, AllSchedules().size());
  for (const Schedule* made : HandMadeSchedules()) EXPECT_NE(made->name(), "auto");
}

TEST(ScheduleTest, UnknownNameGivesTheNearest) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule("g-pipe");
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(schedule.status().message()), HasSubstr("did you mean gpipe?"));
  EXPECT_THAT(std::string(FindSchedule("1F1B").status().message()), HasSubstr("did you mean 1f1b?"));
}

std::string MessageOf(const ScheduleProblem& problem) {
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule("1f1b"))->Build(problem);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(table.status().message());
}

TEST(ScheduleTest, RejectsProblemsThatHaveNoTable) {
  const std::vector<ScheduleProblem> problems = {
      {.num_workers = 0, .num_micro_batches = 1},
      {.num_workers = 1, .num_micro_batches = 0},
      {.num_workers = 4097, .num_micro_batches = 1},
      {.num_workers = 1, .num_micro_batches = 65537},
      {.num_workers = 4096, .num_micro_batches = 65536},
      {.num_workers = 1, .num_chunks = 0, .num_micro_batches = 1},
      {.num_workers = 2, .num_micro_batches = 2, .cost_of_stage = {{}}},
      {.num_workers = 2, .num_micro_batches = 2, .edge_seconds = {1, 1, 1, 1}},
      {.num_workers = 2, .num_micro_batches = 2, .memory_limit = {1}},
  };
  for (const Schedule* schedule : AllSchedules()) {
    for (ScheduleProblem problem : problems) {
      if (problem.num_chunks != 0) problem.num_chunks = schedule->default_chunks();
      const absl::StatusOr<v1::ComputeTable> table = schedule->Build(problem);
      EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(table.status().message()), HasSubstr(std::string(schedule->name())));
    }
  }
}

TEST(ScheduleTest, RejectsNumbersThatAreNoTimesByNameAndIndex) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ScheduleProblem problem = {.num_workers = 3, .num_micro_batches = 2};
  problem.cost_of_stage = {{1, 1, 1}, {1, 1, 1}, {1, 1, -0.5}};
  EXPECT_THAT(MessageOf(problem), HasSubstr("the weight gradient of stage 2 is -0.5"));
  problem.cost_of_stage[1].backward_input = kInfinity;
  EXPECT_THAT(MessageOf(problem), HasSubstr("the input gradient of stage 1 is inf"));
  problem.cost_of_stage[0].forward = kNan;
  EXPECT_THAT(MessageOf(problem), HasSubstr("the forward of stage 0 is nan"));
  problem.cost_of_stage.clear();
  problem.edge_seconds = {0, kNan};
  EXPECT_THAT(MessageOf(problem), HasSubstr("the transfer from stage 1 is nan"));
  problem.edge_seconds.clear();
  for (const double wrong : {kNan, kInfinity, -1.0}) {
    problem.skip_edges = {{.from_stage = 0, .to_stage = 1}, {.from_stage = 0, .to_stage = 2, .seconds = wrong}};
    EXPECT_THAT(MessageOf(problem), HasSubstr("the transfer on the skip edge from stage 0 to stage 2 is "));
  }
  for (const auto& [from, to] : {std::pair(1u, 1u), std::pair(2u, 0u), std::pair(1u, 3u), std::pair(UINT32_MAX, 1u)}) {
    problem.skip_edges = {{.from_stage = from, .to_stage = to}};
    EXPECT_THAT(MessageOf(problem), HasSubstr("does not lead from one of 3 stages to a later one"));
  }
  problem.skip_edges.clear();
  problem.communication_seconds = -1;
  EXPECT_THAT(MessageOf(problem), HasSubstr("the latency of a hop is -1"));
  problem.communication_seconds = 1e300;
  EXPECT_THAT(MessageOf(problem), HasSubstr("1e+300"));
  problem.communication_seconds = 0;
  problem.memory_limit = {kInfinity, kNan, 1};
  EXPECT_THAT(MessageOf(problem), HasSubstr("the memory limit of worker 1 is nan"));
  problem.memory_limit = {kInfinity, 0, 1};
  EXPECT_TRUE((*FindSchedule("1f1b"))->Build(problem).ok());
}

TEST(ScheduleTest, EachScheduleRunsWithTheNumbersOfChunksItAccepts) {
  for (const Schedule* schedule : AllSchedules()) {
    EXPECT_TRUE(schedule->AcceptsChunks(schedule->default_chunks())) << schedule->name();
    for (uint32_t v = 0; v <= 5; ++v) {
      const bool is_v = schedule->placement() == StagePlacement::kV;
      const bool takes_any =
          schedule->name() == "interleaved" || schedule->name() == "auto" || schedule->forward_only();
      const bool expected = takes_any ? v >= 1 : v == (is_v ? 2 : 1);
      EXPECT_EQ(schedule->Build({.num_workers = 3, .num_chunks = v, .num_micro_batches = 2}).ok(), expected)
          << schedule->name() << " with " << v << " chunks";
    }
  }
}

TEST(ScheduleTest, RejectsSizesByNumber) {
  EXPECT_THAT(MessageOf({.num_workers = 0, .num_micro_batches = 1}), HasSubstr("0 workers"));
  EXPECT_THAT(MessageOf({.num_workers = 1, .num_micro_batches = 0}), HasSubstr("0 micro-batches"));
  EXPECT_THAT(MessageOf({.num_workers = 4097, .num_micro_batches = 1}), HasSubstr("4097 workers"));
  EXPECT_THAT(MessageOf({.num_workers = 4096, .num_micro_batches = 1025}), HasSubstr("4096 stages x 1025"));
  EXPECT_THAT(MessageOf({.num_workers = 2, .num_chunks = 3, .num_micro_batches = 1}), HasSubstr("3 chunks"));
}

}  // namespace
}  // namespace stagecoach
