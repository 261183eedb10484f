#include "coordinator/jobs/step_report.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

std::shared_ptr<const v1::StepPrepared> VoteOfBusyWorker(double each) {
  auto vote = std::make_shared<v1::StepPrepared>();
  v1::BusySeconds& busy = *vote->mutable_busy_seconds();
  busy.set_forward(each);
  busy.set_backward_input(each);
  busy.set_backward_weight(each);
  busy.set_optimizer(each);
  busy.set_other(each);
  busy.set_p2p_wait(100);
  busy.set_data_wait(100);
  busy.set_total(100);
  return vote;
}

v1::Plan PlanOfStagesOn(const std::vector<uint32_t>& ranks) {
  v1::Plan plan;
  for (const uint32_t rank : ranks) plan.add_stages()->set_worker_rank(rank);
  return plan;
}

TEST(StepReportTest, WaitingIsNotBusy) {
  const v1::StepEvent event = ReportStep({}, PlanOfStagesOn({0, 1}), {VoteOfBusyWorker(0.25), VoteOfBusyWorker(0.125)},
                                         {.tokens = 100, .seconds = 2.5});
  EXPECT_EQ(event.bubble_ratio(), 1 - (1.25 + 0.625) / (2 * 2.5));
  ASSERT_EQ(event.stage_utilization_size(), 2);
  EXPECT_EQ(event.stage_utilization(0), 0.5);
  EXPECT_EQ(event.stage_utilization(1), 0.25);
  EXPECT_EQ(event.tokens_per_second(), 40);
}

TEST(StepReportTest, StagesOfOneWorkerShareItsUtilization) {
  const v1::StepEvent event = ReportStep({}, PlanOfStagesOn({0, 1, 0, 1}),
                                         {VoteOfBusyWorker(0.1), VoteOfBusyWorker(0.2)}, {.tokens = 1, .seconds = 1});
  ASSERT_EQ(event.stage_utilization_size(), 4);
  EXPECT_EQ(event.stage_utilization(0), event.stage_utilization(2));
  EXPECT_EQ(event.stage_utilization(3), 1);
}

TEST(StepReportTest, RatiosStayWithinTheirRange) {
  const v1::StepEvent busier = ReportStep({}, PlanOfStagesOn({0}), {VoteOfBusyWorker(1)}, {.tokens = 1, .seconds = 1});
  EXPECT_EQ(busier.stage_utilization(0), 1);
  EXPECT_EQ(busier.bubble_ratio(), 0);
  const v1::StepEvent timeless =
      ReportStep({}, PlanOfStagesOn({0}), {VoteOfBusyWorker(1)}, {.tokens = 1, .seconds = 0});
  EXPECT_EQ(timeless.stage_utilization(0), 0);
  EXPECT_EQ(timeless.tokens_per_second(), 0);
}

}  // namespace
}  // namespace stagecoach
