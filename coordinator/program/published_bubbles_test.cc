// Bubble rates that the Zero Bubble paper (Qi et al., Zero Bubble Pipeline Parallelism) publishes: the device bubble,
// with the latency of a hop, from the times of its table 9.

#include <string>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

struct PublishedRow {
  uint32_t num_micro_batches;
  StageCost cost;
  double communication_seconds;
  double one_f_one_b;  // table 5
  double zb_h1;
  double zb_h2;
};

constexpr uint32_t kNumWorkers = 8;
constexpr PublishedRow kRows[] = {
    {24, {18.522, 18.086, 9.337}, 0.601, .2431, .1585, .1083},  // 1.5B
    {32, {18.513, 18.086, 9.331}, 0.626, .1985, .1242, .0837},
    {64, {18.546, 18.097, 9.321}, 0.762, .1240, .0674, .0444},
    {24, {29.718, 29.444, 19.927}, 0.527, .2347, .1323, .0698},  // 6.2B
    {32, {29.802, 29.428, 19.530}, 0.577, .1898, .1045, .0559},
    {64, {29.935, 29.621, 19.388}, 0.535, .1091, .0554, .0294},
};

double DeviceBubble(const std::string& schedule, const PublishedRow& row) {
  ScheduleProblem problem = {.num_workers = kNumWorkers, .num_micro_batches = row.num_micro_batches};
  problem.cost_of_stage.assign(kNumWorkers, row.cost);
  problem.communication_seconds = row.communication_seconds;
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  EXPECT_TRUE(table.ok()) << table.status();
  const absl::StatusOr<Timeline> timeline = Simulate(*table, problem);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline->bubble_ratio_device;
}

TEST(PublishedBubblesTest, AreReproducedToFourDecimals) {
  constexpr double kHalfOfTheLastDecimal = 0.00005;
  for (const PublishedRow& row : kRows) {
    SCOPED_TRACE(testing::Message() << "F=" << row.cost.forward << " M=" << row.num_micro_batches);
    EXPECT_NEAR(DeviceBubble("1f1b", row), row.one_f_one_b, kHalfOfTheLastDecimal);
    EXPECT_NEAR(DeviceBubble("zb_h1", row), row.zb_h1, kHalfOfTheLastDecimal);
    EXPECT_NEAR(DeviceBubble("zb_h2", row), row.zb_h2, kHalfOfTheLastDecimal);
  }
}

}  // namespace
}  // namespace stagecoach
