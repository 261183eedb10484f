#include "coordinator/program/lowered_csv.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "coordinator/program/schedule_proof.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/sheet_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Why the sheet is refused, or "" when it is shown to run.
std::string Verdict(absl::string_view csv, SendSemantics sends = SendSemantics::kBlocking) {
  const absl::StatusOr<ActionSheet> sheet = ReadActionCsv(csv);
  EXPECT_TRUE(sheet.ok()) << sheet.status();
  const absl::StatusOr<std::vector<v1::StageProgram>> programs = ProgramsOfSheet(*sheet);
  if (!programs.ok()) return std::string(programs.status().message());
  return std::string(ProvePrograms(*programs, sends).status().message());
}

std::string File(const std::string& name) {
  std::ifstream file(STAGECOACH_SOURCE_DIR "/tests/golden/programs/" + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The compute actions of a lowered sheet.
v1::ComputeTable ComputeTableOf(absl::string_view csv) {
  ActionSheet sheet = *ReadActionCsv(csv);
  for (std::vector<SheetCell>& row : sheet.rows) {
    std::erase_if(row, [](const SheetCell& cell) {
      return cell.sharding != ShardingKind::kNone || cell.action.kind() > v1::ACTION_KIND_BACKWARD_WEIGHT;
    });
  }
  return *TableOfSheet(sheet, "csv");
}

TEST(LoweredCsvTest, WhatTheLoweringMakesSurvivesBeingPrintedAndRead) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "forward_only"}) {
    for (const uint32_t p : {1u, 2u, 4u}) {
      for (const uint32_t m : {1u, 3u, 8u}) {
        const ScheduleProblem problem{.num_workers = p, .num_micro_batches = m};
        const absl::StatusOr<ProvenSchedule> proven =
            ProveTable(*(*FindSchedule(schedule))->Build(problem), problem, SendSemantics::kRendezvous);
        ASSERT_TRUE(proven.ok()) << proven.status();
        const std::string csv = *LoweredCsv(proven->programs);
        EXPECT_EQ(Verdict(csv, SendSemantics::kRendezvous), "") << csv;
        EXPECT_EQ(Verdict(csv, SendSemantics::kBuffered), "") << csv;
        EXPECT_EQ(*LoweredCsv(*ProgramsOfSheet(*ReadActionCsv(csv))), csv);
      }
    }
  }
}

// PyTorch puts a receive where its send is made, which no order of sends can hang.
TEST(LoweredCsvTest, TakesWhatPyTorchLowers) {
  EXPECT_EQ(Verdict("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                    "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1W0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n"),
            "");
}

// pytorch#172668: with receives right before their use, both neighbours come to a send first.
TEST(LoweredCsvTest, NeighboursThatBothSendBeforeTheyReceiveAreADeadlock) {
  const std::string csv = File("both_send_first.csv");
  EXPECT_EQ(Verdict(csv),
            "deadlock under blocking rendezvous sends: worker 0 at 0SEND_F1 waits for 1RECV_F1 of worker 1, "
            "worker 1 at 1SEND_B0 waits for 0RECV_B0 of worker 0");
  EXPECT_EQ(Verdict(csv, SendSemantics::kBuffered), "");
  const v1::ComputeTable table = ComputeTableOf(csv);
  EXPECT_TRUE(ProveTable(table, {.num_workers = 2, .num_micro_batches = 3}, SendSemantics::kRendezvous).ok());
}

// PiPPy#969: a ring of sends, none of which is received before the next worker's own send is through.
TEST(LoweredCsvTest, SendsInARingAreADeadlock) {
  const std::string csv = File("ring_of_sends.csv");
  EXPECT_THAT(Verdict(csv), AllOf(HasSubstr("deadlock under blocking rendezvous sends"), HasSubstr("of worker 0"),
                                  HasSubstr("of worker 1"), HasSubstr("of worker 2")));
  EXPECT_EQ(Verdict(csv, SendSemantics::kBuffered), "");
  const v1::ComputeTable table = ComputeTableOf(csv);
  EXPECT_TRUE(
      ProveTable(table, {.num_workers = 3, .num_chunks = 2, .num_micro_batches = 3}, SendSemantics::kRendezvous).ok());
}

TEST(LoweredCsvTest, RefusesTransfersThatAreMissingDoubleOrInTheWrongPlace) {
  const std::string last = "\n1RECV_F0,1F0,1B0,1SEND_B0";
  EXPECT_THAT(Verdict("0F0,0RECV_B0,0B0" + last), HasSubstr("line 1: 0SEND_F0 is missing"));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,0B0" + last), AllOf(HasSubstr("(cell 3, 0B0)"), HasSubstr("no 0RECV_B0 before")));
  EXPECT_THAT(Verdict("0SEND_F0,0F0,0RECV_B0,0B0" + last),
              AllOf(HasSubstr("(cell 1, 0SEND_F0)"), HasSubstr("before the F")));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,0RECV_B0,0SEND_F0,0B0" + last),
              AllOf(HasSubstr("(cell 4, 0SEND_F0)"), HasSubstr("second time"), HasSubstr("(cell 2, 0SEND_F0)")));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,0SEND_B0,0RECV_B0,0B0" + last), HasSubstr("stage 0 has no neighbour there"));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,1F0,1B0,0B0"), HasSubstr("are on one worker, where nothing is sent"));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,0RECV_B0,0B0,0SEND_F1" + last), HasSubstr("micro-batches 0 to 0"));
  EXPECT_THAT(Verdict("0F0,0SEND_F0,2SEND_B0,0RECV_B0,0B0" + last), HasSubstr("stage 2 has no F"));
  EXPECT_THAT(Verdict("0LOAD0,0F0,0B0"), HasSubstr("a lowered sheet has no such action"));
}

TEST(LoweredCsvTest, RefusesChannelsThatAreNotFirstInFirstOut) {
  EXPECT_THAT(Verdict("0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"),
              AllOf(HasSubstr("activation channel 0->1"), HasSubstr("number 0 is the first that differs")));
}

TEST(LoweredCsvTest, RefusesStagesThatRunWithoutTheirParameters) {
  EXPECT_EQ(Verdict("0UNSHARD,0F0,0B0,0RESHARD"), "");
  EXPECT_THAT(Verdict("0F0,0UNSHARD,0B0"), AllOf(HasSubstr("(cell 1, 0F0)"), HasSubstr("parameters of stage 0")));
  EXPECT_THAT(Verdict("0F0,0RESHARD,0B0"), AllOf(HasSubstr("(cell 3, 0B0)"), HasSubstr("0RESHARD")));
  EXPECT_THAT(Verdict("0F0,0I0,0REDUCE_GRAD,0W0"), AllOf(HasSubstr("(cell 4, 0W0)"), HasSubstr("comes after")));
  EXPECT_THAT(Verdict("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD"), HasSubstr("second time"));
}

TEST(LoweredCsvTest, HasNoWordForSkipEdges) {
  const testing::SmallPipeline pipeline =
      testing::MakeSmallPipeline("1f1b", {.num_stages = 3, .num_micro_batches = 2, .skip_connections = {{1, 5}}});
  const absl::StatusOr<std::string> csv = LoweredCsv(pipeline.programs);
  EXPECT_EQ(csv.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(csv.status().message()), HasSubstr("has no skip edges, and stages 0 and 2 have one"));
}

}  // namespace
}  // namespace stagecoach
