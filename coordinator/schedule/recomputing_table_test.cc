#include "coordinator/schedule/recomputing_table.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/schedule/action_sheet.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/sheet_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

TEST(RecomputingTableTest, RStandsBeforeEveryBackwardOfAStageThatRecomputes) {
  const auto table = (*FindSchedule("1f1b"))->Build({.num_workers = 2, .num_micro_batches = 2});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(ComputeCsv(WithRecomputation(*table, {true, false})),
            "0F0,0F1,0R0,0B0,0R1,0B1\n"
            "1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(ComputeCsv(WithRecomputation(*table, {false, false})), ComputeCsv(*table));
}

// Whatever the schedule: every R once, between its F and its I or B, and read back from a file as it was written.
TEST(RecomputingTableTest, TablesOfAllSchedulesPassTheChecksOfFiles) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only()) continue;
    const uint32_t chunks = schedule->default_chunks();
    const auto table = schedule->Build({.num_workers = 3, .num_chunks = chunks, .num_micro_batches = 5});
    ASSERT_TRUE(table.ok()) << table.status();
    std::vector<bool> recomputes(table->num_stages(), true);
    recomputes.back() = false;
    const v1::ComputeTable with = WithRecomputation(*table, recomputes);
    const auto read = ParseComputeCsv(ComputeCsv(with), schedule->name());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(ComputeCsv(*read), ComputeCsv(with)) << schedule->name();
    const auto shape = CheckComputeActions(*ReadActionCsv(ComputeCsv(with)));
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(shape->recomputes, recomputes) << schedule->name();
    EXPECT_EQ(RecomputingStages(with), recomputes) << schedule->name();
  }
}

std::string Refusal(const std::string& csv) {
  const auto table = ParseComputeCsv(csv, "csv");
  EXPECT_FALSE(table.ok()) << csv;
  return std::string(table.status().message());
}

TEST(RecomputingTableTest, RWithoutPlaceIsRefused) {
  EXPECT_THAT(Refusal("0R0,0F0,0B0\n"), HasSubstr("comes before the 0F0 that it needs"));
  EXPECT_THAT(Refusal("0F0,0B0,0R0\n"), HasSubstr("comes after line 1, column 5 (cell 2, 0B0), which needs it"));
  EXPECT_THAT(Refusal("0F0,0I0,0R0,0W0\n"), HasSubstr("which needs it"));
  EXPECT_THAT(Refusal("0F0,0R0,0R0,0B0\n"), HasSubstr("is there a second time"));
  EXPECT_THAT(Refusal("0F0,0F1,0R0,0B0,0B1\n"), HasSubstr("0R1 is missing"));
}

}  // namespace
}  // namespace stagecoach
