#include "coordinator/program/table_text.h"

#include <google/protobuf/util/message_differencer.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/program/simulator.h"
#include "coordinator/program/timed_table.h"
#include "coordinator/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::ComputeTable Table(const Schedule& schedule, uint32_t p, uint32_t m) {
  return *schedule.Build({.num_workers = p, .num_chunks = schedule.default_chunks(), .num_micro_batches = m});
}

v1::TimedTable Timed(const v1::ComputeTable& table, double seconds) {
  ScheduleProblem problem;
  problem.cost_of_stage.assign(table.num_stages(), {seconds, seconds / 3, seconds * 1e-7});
  problem.communication_seconds = seconds / 7;
  return TimedTableOf(table, *Simulate(table, problem));
}

TEST(TableTextTest, IsALineAWorker) {
  EXPECT_EQ(TableText(Table(**FindSchedule("1f1b"), 2, 2)),
            "table 1f1b stages 2 micro_batches 2\n"
            "worker 0 0F0 0F1 0B0 0B1\n"
            "worker 1 1F0 1B0 1F1 1B1\n");
}

TEST(TimedTableTextTest, IsALineAnActionAndAChangeOfMemory) {
  const v1::ComputeTable table = Table(**FindSchedule("1f1b"), 2, 1);
  ScheduleProblem problem;
  problem.communication_seconds = 0.25;
  EXPECT_EQ(TimedTableText(TimedTableOf(table, *Simulate(table, problem))),
            "timeline 1f1b stages 2 micro_batches 1\n"
            "worker 0\n0F0 0 1\n0B0 4.5 6.5\nholds 0 1 0\nholds 4.5 1 1\nholds 6.5 0 0\n"
            "worker 1\n1F0 1.25 2.25\n1B0 2.25 4.25\nholds 1.25 1 0\nholds 2.25 1 1\nholds 4.25 0 0\n");
}

TEST(TableTextTest, BothLevelsOfEveryScheduleSurviveBeingPrintedAndRead) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> seconds(1e-9, 1e9);
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == "auto") continue;  // searches for seconds
    for (const uint32_t p : {1u, 2u, 4u}) {
      for (const uint32_t m : {1u, 5u}) {
        const v1::ComputeTable table = Table(*schedule, p, m);
        const absl::StatusOr<v1::ComputeTable> again = ParseTableText(TableText(table));
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_TRUE(MessageDifferencer::Equals(table, *again));
        EXPECT_EQ(ContentHash(table), ContentHash(*again));

        const v1::TimedTable timed = Timed(table, seconds(random));
        const absl::StatusOr<v1::TimedTable> timed_again = ParseTimedTableText(TimedTableText(timed));
        ASSERT_TRUE(timed_again.ok()) << timed_again.status();
        EXPECT_TRUE(MessageDifferencer::Equals(timed, *timed_again));
        EXPECT_TRUE(MessageDifferencer::Equals(TableOf(timed), table));
        EXPECT_EQ(ContentHash(timed), ContentHash(*timed_again));
      }
    }
  }
}

TEST(TableTextTest, AnyDifferenceChangesTheHash) {
  v1::ComputeTable table = Table(**FindSchedule("1f1b"), 2, 3);
  const std::string before = ContentHash(table);
  EXPECT_EQ(before.size(), 16u);
  table.mutable_workers(0)->mutable_actions()->SwapElements(0, 1);
  EXPECT_NE(ContentHash(table), before);
}

std::string Refusal(absl::string_view text) {
  const absl::StatusOr<v1::ComputeTable> table = ParseTableText(text);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(table.status().message());
}

TEST(TableTextTest, NamesThePlaceOfAMistake) {
  const std::string head = "table x stages 1 micro_batches 1\n";
  EXPECT_EQ(Refusal(""), "the text is empty");
  EXPECT_EQ(Refusal("tables x"), "line 1, column 1: expected table, not \"tables\"");
  EXPECT_THAT(Refusal("table \xff stages 1"), HasSubstr("\"\\377\" is no schedule's name; ASCII"));
  EXPECT_THAT(Refusal("table x stages many"), AllOf(StartsWith("line 1, column 16: "), HasSubstr("\"many\"")));
  EXPECT_THAT(Refusal("table x stages 1"), AllOf(StartsWith("line 1, column 17: "), HasSubstr("the line ends")));
  EXPECT_THAT(Refusal("table x stages 5000 micro_batches 1"), HasSubstr("0 to 4096"));
  EXPECT_THAT(Refusal(head + "worker 1 0F0"), StartsWith("line 2, column 8: expected 0"));
  EXPECT_THAT(Refusal(head + "\nworker 0 0F0 0F"), AllOf(StartsWith("line 3, column 14: "), HasSubstr("\"0F\"")));
  EXPECT_THAT(Refusal(head + "worker 0 0F0 0F0"), AllOf(StartsWith("line 2, column 14 "), HasSubstr("second time")));
  EXPECT_THAT(Refusal(head + "worker 0 0F0 0F1"), HasSubstr("the first line says 1 stages and 1 micro-batches"));
}

TEST(TimedTableTextTest, NamesThePlaceOfAMistake) {
  const std::string head = "timeline x stages 1 micro_batches 1\nworker 0\n";
  const auto refusal = [&head](absl::string_view text) {
    return std::string(ParseTimedTableText(absl::StrCat(head, text)).status().message());
  };
  EXPECT_EQ(refusal("0F0 0 1\n0B0 1 3\nholds 0 1 0"), "");
  EXPECT_THAT(refusal("0F0 0"), StartsWith("line 3, column 6: expected end"));
  EXPECT_THAT(refusal("0F0 0 nan"), HasSubstr("\"nan\" is no end; a finite number is"));
  EXPECT_THAT(refusal("0F0 0 1e999"), HasSubstr("\"1e999\" is no end"));
  EXPECT_THAT(refusal("0F0 2 1"), HasSubstr("ends at 1, before it starts"));
  EXPECT_THAT(refusal("0F0 0 2\n0B0 1 3"), AllOf(StartsWith("line 4"), HasSubstr("starts at 1, before 2")));
  EXPECT_THAT(refusal("holds 0 1"), HasSubstr("expected number of pending weights"));
  EXPECT_THAT(std::string(ParseTimedTableText("timeline x stages 1 micro_batches 1\n0F0 0 1").status().message()),
              StartsWith("line 2, column 1: expected worker 0"));
}

}  // namespace
}  // namespace stagecoach
