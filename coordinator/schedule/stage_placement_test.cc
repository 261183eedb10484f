#include "coordinator/schedule/stage_placement.h"

#include <string>
#include <vector>

#include "coordinator/schedule/compute_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint32_t> Workers(StagePlacement placement, uint32_t num_workers, uint32_t num_stages) {
  std::vector<uint32_t> workers;
  for (uint32_t stage = 0; stage < num_stages; ++stage) workers.push_back(WorkerOfStage(placement, num_workers, stage));
  return workers;
}

// One forward of each stage in `rows`.
v1::ComputeTable TableOf(uint32_t num_stages, const std::vector<std::vector<uint32_t>>& rows) {
  v1::ComputeTable table;
  table.set_num_stages(num_stages);
  table.set_num_micro_batches(1);
  for (const std::vector<uint32_t>& stages : rows) {
    v1::WorkerActions* row = table.add_workers();
    for (const uint32_t stage : stages) Append(*row, v1::ACTION_KIND_FORWARD, stage, 0);
  }
  return table;
}

std::string MessageOf(const v1::ComputeTable& table) { return std::string(WorkersOfStages(table).status().message()); }

TEST(StagePlacementTest, LoopGoesRoundTheWorkers) {
  EXPECT_THAT(Workers(StagePlacement::kLoop, 3, 7), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_THAT(Workers(StagePlacement::kLoop, 1, 2), ElementsAre(0, 0));
}

TEST(StagePlacementTest, VGoesDownAndUpAgain) {
  EXPECT_THAT(Workers(StagePlacement::kV, 3, 6), ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(Workers(StagePlacement::kV, 1, 2), ElementsAre(0, 0));
}

TEST(StagePlacementTest, RowsSayWhereStagesAre) {
  EXPECT_THAT(*WorkersOfStages(TableOf(4, {{0, 3, 0}, {1, 2}})), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(*WorkersOfStages(TableOf(1, {{}, {0}})), ElementsAre(1));
}

TEST(StagePlacementTest, RejectsRowsThatDoNotPlaceEachStageOnce) {
  EXPECT_EQ(MessageOf(TableOf(2, {{0}, {1, 0}})), "stage 0 is on workers 0 and 1");
  EXPECT_EQ(MessageOf(TableOf(3, {{0}, {2}})), "no worker has an action of stage 1");
  EXPECT_EQ(MessageOf(TableOf(1, {})), "no worker has an action of stage 0");
  EXPECT_THAT(MessageOf(TableOf(2, {{0}, {1, 2}})), HasSubstr("2F0 on worker 1"));
  EXPECT_EQ(WorkersOfStages(TableOf(1, {})).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
