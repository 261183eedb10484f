#include "coordinator/spec/schedule_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/spec/order_reader.h"
#include "coordinator/spec/spec_test_cases.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// With one micro-batch, so that short orders fit.
std::vector<SpecOverride> WithSchedule(const std::string& value) {
  return {{"parallelism.schedule", value}, {"training.micro_batch_size", "auto"}};
}

// F and B of one micro-batch on each of two stages.
v1::ComputeTable SmallOrder() {
  v1::ComputeTable order;
  order.set_schedule("csv");
  order.set_num_stages(2);
  order.set_num_micro_batches(1);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    v1::WorkerActions& row = *order.add_workers();
    for (const v1::ActionKind kind : {v1::ACTION_KIND_FORWARD, v1::ACTION_KIND_BACKWARD}) {
      v1::Action& action = *row.add_actions();
      action.set_kind(kind);
      action.set_stage(stage);
    }
  }
  return order;
}

TEST(ScheduleValueTest, RowsAreAnOrder) {
  std::vector<SpecError> errors;
  const auto spec = ParseJobSpec(kGoodSpec, WithSchedule("[\"0F0, 0B0\", \"1F0,1B0\"]"), errors);
  ASSERT_TRUE(spec.ok()) << FormatSpecError("f", errors.at(0));
  const v1::ParallelismSpec& parallelism = spec->parallelism();
  EXPECT_EQ(parallelism.schedule(), "csv");
  EXPECT_EQ(parallelism.order().SerializeAsString(), SmallOrder().SerializeAsString());
  // What follows from it is written down.
  EXPECT_EQ(parallelism.pipeline_parallel_degree(), 2u);
  EXPECT_EQ(parallelism.virtual_stages(), 1u);
  EXPECT_EQ(spec->training().micro_batch_size(), 480u);
  EXPECT_THAT(PrintJobSpec(*spec), HasSubstr("  schedule:\n    - \"0F0,0B0\"\n    - \"1F0,1B0\"\n  partition: auto\n"));
}

TEST(ScheduleValueTest, ARowIsRefusedWithTheCellThatIsNoAction) {
  const auto refusal = [](const std::string& value) {
    const std::vector<std::string> lines = ErrorLinesOf(kGoodSpec, WithSchedule(value));
    return lines.size() == 1 ? lines[0] : absl::StrCat(lines.size(), " errors");
  };
  EXPECT_EQ(refusal("[]"),
            "f: --set parallelism.schedule: the list is empty; an order has a row for each worker: [\"0F0,0B0\", "
            "\"1F0,1B0\"]");
  EXPECT_THAT(refusal("[\"0F0,0B0\", \"1F0,1G0\"]"), HasSubstr("schedule[1]: cell 2: \"1G0\": there is no action"));
  EXPECT_THAT(refusal("[\"0F0,\"]"), HasSubstr("schedule[0]: cell 2: \"\": an action is a stage, a kind"));
  EXPECT_THAT(refusal("[\"0F0,0SEND_F0,0B0\"]"), HasSubstr("cell 2: \"0SEND_F0\": an order has F, B, I and W alone"));
  EXPECT_THAT(refusal("[\"0F0,0R0,0B0\"]"), HasSubstr("cell 2: \"0R0\": an order has F, B, I and W alone"));
  EXPECT_THAT(refusal("[\"4096F0\"]"), HasSubstr("at most 4096 stages and 65535 micro-batches"));
  EXPECT_THAT(refusal("[\"0F65535\"]"), HasSubstr("at most 4096 stages and 65535 micro-batches"));
  EXPECT_THAT(refusal("[[\"0F0\"]]"), HasSubstr("schedule[0]: expected text"));
  EXPECT_THAT(refusal("csv"), HasSubstr("expected auto or gpipe"));
}

TEST(ScheduleValueTest, AFileIsReadByWhoeverHasIt) {
  std::vector<std::string> paths;
  const OrderReader reader = [&](const std::string& path) -> absl::StatusOr<v1::ComputeTable> {
    paths.push_back(path);
    if (path != "/orders/good.csv") return absl::NotFoundError(path + ": no such file");
    return SmallOrder();
  };
  std::vector<SpecError> errors;
  for (const char* path : {"/orders/good.csv", "file:/orders/good.csv", "file:///orders/good.csv"}) {
    const auto spec = ParseJobSpecWith(kGoodSpec, WithSchedule(path), reader, errors);
    ASSERT_TRUE(spec.ok()) << FormatSpecError("f", errors.at(0));
    EXPECT_EQ(spec->parallelism().schedule(), "csv");
    EXPECT_EQ(spec->parallelism().order().SerializeAsString(), SmallOrder().SerializeAsString());
  }
  EXPECT_FALSE(ParseJobSpecWith(kGoodSpec, WithSchedule("/orders/none.csv"), reader, errors).ok());
  EXPECT_EQ(FormatSpecError("f", errors.at(0)), "f: --set parallelism.schedule: /orders/none.csv: no such file");
  EXPECT_THAT(paths, ElementsAre("/orders/good.csv", "/orders/good.csv", "/orders/good.csv", "/orders/none.csv"));
  // As all paths of a specification.
  for (const auto& [path, message] : {std::pair("good.csv", "is not an absolute path"),
                                      {"orders/good.csv", "is not an absolute path"},
                                      {"/orders/../good.csv", "'..' is not accepted in a path"},
                                      {"s3://orders/good.csv", "object stores are not supported yet"}}) {
    EXPECT_THAT(ErrorLinesOf(kGoodSpec, WithSchedule(path)), ElementsAre(HasSubstr(message))) << path;
  }
}

TEST(ScheduleValueTest, AFileIsRefusedWhereNobodyHasIt) {
  EXPECT_THAT(ErrorLinesOf(kGoodSpec, WithSchedule("/orders/good.csv")),
              ElementsAre("f: --set parallelism.schedule: a file, which whoever submits the job reads; give its rows "
                          "as a list"));
}

TEST(ScheduleValueTest, AnOrderThatNoSpecificationHoldsIsRefused) {
  const OrderReader reader = [](const std::string&) -> absl::StatusOr<v1::ComputeTable> {
    v1::ComputeTable order = SmallOrder();
    for (uint32_t i = 0; i < 200'000; ++i) *order.mutable_workers(0)->add_actions() = order.workers(0).actions(0);
    return order;
  };
  std::vector<SpecError> errors;
  EXPECT_FALSE(ParseJobSpecWith(kGoodSpec, WithSchedule("/a.csv"), reader, errors).ok());
  EXPECT_THAT(FormatSpecError("f", errors.at(0)), HasSubstr("/a.csv: an order of more than 786432 bytes"));
}

// As long as any that fits.
TEST(ScheduleValueTest, ALongOrderReadsBack) {
  v1::ComputeTable order = SmallOrder();
  order.set_num_micro_batches(10'000);
  for (v1::WorkerActions& row : *order.mutable_workers()) {
    for (uint32_t i = 1; i < 10'000; ++i) {
      for (int kind = 0; kind < 2; ++kind) {
        v1::Action& action = *row.add_actions();
        action = row.actions(kind);
        action.set_micro_batch(i);
      }
    }
  }
  const OrderReader reader = [&](const std::string&) -> absl::StatusOr<v1::ComputeTable> { return order; };
  std::vector<SpecError> errors;
  std::vector<SpecOverride> overrides = WithSchedule("/a.csv");
  overrides.push_back({"training.global_batch_size", "10000"});
  const auto spec = ParseJobSpecWith(kGoodSpec, overrides, reader, errors);
  ASSERT_TRUE(spec.ok()) << FormatSpecError("f", errors.at(0));
  EXPECT_TRUE(CheckJobSpec(*spec).ok()) << CheckJobSpec(*spec);
}

}  // namespace
}  // namespace stagecoach
