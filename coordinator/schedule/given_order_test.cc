#include "coordinator/schedule/given_order.h"

#include <string>

#include "coordinator/schedule/compute_csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ComputeTable Table(const std::string& csv) { return *ParseComputeCsv(csv, "csv"); }

std::string Refusal(const v1::ComputeTable& table) {
  const auto order = GivenOrder::Create(table);
  EXPECT_EQ(order.status().code(), absl::StatusCode::kInvalidArgument) << order.status();
  return std::string(order.status().message());
}

TEST(GivenOrderTest, IsTheTableThatItIsGiven) {
  const v1::ComputeTable table = Table("0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  const auto order = GivenOrder::Create(table);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ((*order)->name(), "csv");
  EXPECT_EQ((*order)->num_chunks(), 1u);
  EXPECT_TRUE((*order)->AcceptsChunks(1));
  EXPECT_FALSE((*order)->AcceptsChunks(2));
  const auto built = (*order)->Build({.num_workers = 2, .num_micro_batches = 2});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->SerializeAsString(), table.SerializeAsString());
}

TEST(GivenOrderTest, EverySchedulesTableIsOneInItsPlacement) {
  for (const Schedule* schedule : HandMadeSchedules()) {
    if (schedule->forward_only()) continue;
    const ScheduleProblem problem = {
        .num_workers = 3, .num_chunks = schedule->default_chunks(), .num_micro_batches = 5};
    const auto order = GivenOrder::Create(*schedule->Build(problem));
    ASSERT_TRUE(order.ok()) << schedule->name() << ": " << order.status();
    EXPECT_EQ((*order)->placement(), schedule->placement()) << schedule->name();
    EXPECT_EQ((*order)->num_chunks(), schedule->default_chunks());
    EXPECT_TRUE((*order)->Build(problem).ok());
  }
}

TEST(GivenOrderTest, OtherProblemsAreRefusedWithTheNumbers) {
  const auto order = GivenOrder::Create(Table("0F0,0B0\n1F0,1B0\n"));
  ASSERT_TRUE(order.ok()) << order.status();
  for (const ScheduleProblem& problem : {ScheduleProblem{.num_workers = 3, .num_micro_batches = 1},
                                         ScheduleProblem{.num_workers = 2, .num_chunks = 2, .num_micro_batches = 1},
                                         ScheduleProblem{.num_workers = 2, .num_micro_batches = 4}}) {
    EXPECT_THAT(std::string((*order)->Build(problem).status().message()),
                HasSubstr("an order of 2 worker(s) x 1 stage(s) and 1 micro-batch(es), not of "));
  }
}

TEST(GivenOrderTest, WhatDoesNotTrainIsRefused) {
  EXPECT_THAT(Refusal(Table("0F0\n1F0\n")), HasSubstr("it has no backward"));
  EXPECT_THAT(Refusal(Table("0F0,0R0,0B0\n")),
              AllOf(HasSubstr("0R0"), HasSubstr("parallelism.activation_checkpointing")));
}

TEST(GivenOrderTest, OtherPlacementsAreRefused) {
  EXPECT_TRUE(GivenOrder::Create(Table("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")).ok());  // a V
  EXPECT_TRUE(GivenOrder::Create(Table("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n")).ok());  // a loop
  EXPECT_THAT(Refusal(Table("1F0,1B0\n0F0,0B0\n")), HasSubstr("neither in a loop"));
  EXPECT_THAT(Refusal(Table("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n")), HasSubstr("neither in a loop"));
  EXPECT_THAT(Refusal(Table("0F0,2F0,2B0,0B0\n1F0,1B0\n")), HasSubstr("as many on each"));
}

TEST(GivenOrderTest, WhatIsNoTableIsRefusedWithItsPlace) {
  v1::ComputeTable table = Table("0F0,0B0\n1F0,1B0\n");
  *table.mutable_workers(1)->add_actions() = table.workers(1).actions(0);
  EXPECT_THAT(Refusal(table), HasSubstr("line 2, column 9 (cell 3, 1F0): is there a second time"));
  table.mutable_workers(1)->mutable_actions(2)->set_stage(4'000'000'000);
  EXPECT_THAT(Refusal(table), HasSubstr("stages are numbered 0 to 4095"));
  table.mutable_workers(1)->mutable_actions(2)->set_kind(v1::ACTION_KIND_SEND_FORWARD);
  EXPECT_THAT(Refusal(table), HasSubstr("F, B, I, W and R alone"));
  table.mutable_workers(1)->mutable_actions(2)->set_kind(v1::ACTION_KIND_UNSPECIFIED);
  Refusal(table);
  EXPECT_THAT(Refusal(v1::ComputeTable()), HasSubstr("there are no actions"));
}

}  // namespace
}  // namespace stagecoach
