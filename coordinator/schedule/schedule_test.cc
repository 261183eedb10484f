#include "coordinator/schedule/schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/schedule/compute_csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

v1::ComputeTable Table(absl::string_view name, uint32_t p, uint32_t m) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  absl::StatusOr<v1::ComputeTable> table = (*schedule)->Build({.num_workers = p, .num_micro_batches = m});
  EXPECT_TRUE(table.ok()) << table.status();
  return *table;
}

std::vector<uint32_t> MicroBatchesOf(const v1::WorkerActions& row, v1::ActionKind kind) {
  std::vector<uint32_t> result;
  for (const v1::Action& action : row.actions()) {
    if (action.kind() == kind) result.push_back(action.micro_batch());
  }
  return result;
}

TEST(ScheduleTest, EveryTableHoldsEachActionOnceAndInMicroBatchOrder) {
  for (const Schedule* schedule : AllSchedules()) {
    for (uint32_t p = 1; p <= 8; ++p) {
      for (uint32_t m = 1; m <= 17; ++m) {
        const v1::ComputeTable table = Table(schedule->name(), p, m);
        ASSERT_EQ(table.workers_size(), static_cast<int>(p));
        std::vector<uint32_t> all(m);
        for (uint32_t i = 0; i < m; ++i) all[i] = i;
        for (uint32_t stage = 0; stage < p; ++stage) {
          const v1::WorkerActions& row = table.workers(static_cast<int>(stage));
          EXPECT_EQ(MicroBatchesOf(row, v1::ACTION_KIND_FORWARD), all);
          EXPECT_EQ(MicroBatchesOf(row, v1::ACTION_KIND_BACKWARD),
                    schedule->forward_only() ? std::vector<uint32_t>{} : all);
          EXPECT_EQ(row.actions_size(), static_cast<int>(schedule->forward_only() ? m : 2 * m));
          for (const v1::Action& action : row.actions()) EXPECT_EQ(action.stage(), stage);
        }
      }
    }
  }
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

TEST(ScheduleTest, AutoIsOneForwardOneBackward) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule("auto");
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ((*schedule)->name(), "1f1b");
}

TEST(ScheduleTest, UnknownNameGivesTheNearest) {
  const absl::StatusOr<const Schedule*> schedule = FindSchedule("g-pipe");
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(schedule.status().message()), HasSubstr("did you mean gpipe?"));
  EXPECT_THAT(std::string(FindSchedule("1F1B").status().message()), HasSubstr("did you mean 1f1b?"));
}

TEST(ScheduleTest, RejectsProblemsThatHaveNoTable) {
  const std::vector<ScheduleProblem> problems = {
      {.num_workers = 0, .num_micro_batches = 1},
      {.num_workers = 1, .num_micro_batches = 0},
      {.num_workers = 4097, .num_micro_batches = 1},
      {.num_workers = 1, .num_micro_batches = 65537},
      {.num_workers = 4096, .num_micro_batches = 65536},
      {.num_workers = 2, .num_chunks = 2, .num_micro_batches = 2},
      {.num_workers = 2, .num_micro_batches = 2, .cost_of_stage = {{}}},
  };
  for (const Schedule* schedule : AllSchedules()) {
    for (const ScheduleProblem& problem : problems) {
      const absl::StatusOr<v1::ComputeTable> table = schedule->Build(problem);
      EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(table.status().message()), HasSubstr(std::string(schedule->name())));
    }
  }
}

}  // namespace
}  // namespace stagecoach
