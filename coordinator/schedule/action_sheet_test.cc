#include "coordinator/schedule/action_sheet.h"

#include <google/protobuf/util/message_differencer.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/action_text.h"
#include "coordinator/schedule/compute_csv.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/sheet_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TextOf(const ActionSheet& sheet) {
  std::string text;
  for (const std::vector<SheetCell>& row : sheet.rows) {
    for (const SheetCell& cell : row) absl::StrAppend(&text, CellText(cell), " ");
    text += "| ";
  }
  return text;
}

std::string Read(absl::string_view csv) {
  const absl::StatusOr<ActionSheet> sheet = ReadActionCsv(csv);
  return sheet.ok() ? TextOf(*sheet) : std::string(sheet.status().message());
}

std::string Refusal(absl::string_view csv) {
  const absl::StatusOr<v1::ComputeTable> table = ParseComputeCsv(csv, "file");
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << csv;
  return std::string(table.status().message());
}

TEST(ActionCsvTest, ReadsWhatPyTorchWrites) {
  EXPECT_EQ(Read("0F0,0F1,,0B0\r\n,1F0,1I0,1W0\r\n"), "0F0 0F1 0B0 | 1F0 1I0 1W0 | ");
  EXPECT_EQ(Read(" 0F0 , (0F1;3B0)OVERLAP_F_B ,( 0F2 ; 3B1 ) OVERLAP_F_B\n3F0"), "0F0 0F1 3B0 0F2 3B1 | 3F0 | ");
  EXPECT_EQ(Read("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n\n\n"),
            "0UNSHARD 0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD 0RESHARD | 1RECV_F0 1F0 1B0 1SEND_B0 | ");
}

TEST(ActionCsvTest, NamesThePlaceOfWhatIsNoAction) {
  EXPECT_THAT(Read("0F0,0B0\n1F0, 1Q0"), AllOf(HasSubstr("line 2, column 6 (cell 2)"), HasSubstr("\"1Q0\"")));
  EXPECT_THAT(Read("0F0,(0F1;1B0)"), HasSubstr("line 1, column 5 (cell 2)"));
  EXPECT_THAT(Read("(0F1;)OVERLAP_F_B"), HasSubstr("line 1, column 6 (cell 1)"));
  EXPECT_THAT(Read("2BW0"), HasSubstr("no action of kind BW; older files have it for B, and B for I: write those"));
  EXPECT_THAT(Read("0F0;0B0"), HasSubstr("is no action"));
  EXPECT_EQ(Read(""), "there are no actions");
  EXPECT_EQ(Read("\n , \n"), "there are no actions");
  EXPECT_THAT(Read(std::string(5000, '\n') + "0F0"), HasSubstr("5001 lines"));
}

TEST(ComputeCsvTest, EveryScheduleSurvivesBeingPrintedAndRead) {
  for (const Schedule* schedule : AllSchedules()) {
    if (schedule->name() == "auto") continue;  // searches for seconds
    for (const uint32_t p : {1u, 2u, 4u, 5u}) {
      for (const uint32_t m : {1u, 3u, 8u}) {
        const absl::StatusOr<v1::ComputeTable> table =
            schedule->Build({.num_workers = p, .num_chunks = schedule->default_chunks(), .num_micro_batches = m});
        ASSERT_TRUE(table.ok()) << table.status();
        const absl::StatusOr<v1::ComputeTable> again = ParseComputeCsv(ComputeCsv(*table), schedule->name());
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_TRUE(MessageDifferencer::Equals(*table, *again)) << schedule->name() << " p=" << p << " m=" << m;
      }
    }
  }
}

TEST(ComputeCsvTest, EmptyCellsSpacesAndOverlapsMeanNothing) {
  const std::string plain = "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1B1,1W0\n";
  const std::string decorated = absl::StrReplaceAll(plain, {{",", " , ,\t"}, {"\n", ",\r\n"}, {"1F1,1B1", "1F1,1B1"}});
  EXPECT_EQ(ComputeCsv(*ParseComputeCsv(decorated, "")), plain);
  EXPECT_EQ(ComputeCsv(*ParseComputeCsv("0F0,0F1,0B0,0B1\n1F0,1I0,(1F1;1B1)OVERLAP_F_B,1W0", "")), plain);
}

TEST(ComputeCsvTest, RefusesWhatIsThereTwice) {
  EXPECT_EQ(Refusal("0F0,0B0,0F0"),
            "line 1, column 9 (cell 3, 0F0): is there a second time; the first is line 1, column 1 (cell 1, 0F0)");
  EXPECT_THAT(Refusal("0F0,0B0,0W0"), AllOf(HasSubstr("(cell 3, 0W0)"), HasSubstr("B is I and W together")));
  EXPECT_THAT(Refusal("0F0,0I0,0B0"), AllOf(HasSubstr("(cell 3, 0B0)"), HasSubstr("there is also line 1, column 5")));
}

TEST(ComputeCsvTest, RefusesWhatIsMissing) {
  EXPECT_EQ(Refusal("0F0,0F1,0B0,0B1\n1F0,1B0"), "line 2: 1F1 is missing; the sheet has micro-batches 0 to 1");
  EXPECT_THAT(Refusal("0F0,0B0\n1F0"), HasSubstr("line 2: 1B0 is missing"));
  EXPECT_THAT(Refusal("0F0,0I0"), HasSubstr("line 1: 0W0 is missing"));
  EXPECT_THAT(Refusal("0F0,0B0\n2F0,2B0"), HasSubstr("stage 1 is missing; there are stages up to 2"));
  EXPECT_THAT(Refusal("0F0,0B0\n\n1F0,1B0"), HasSubstr("worker 1 (row 2) has no actions"));
}

TEST(ComputeCsvTest, RefusesOrdersThatCannotRunOnOneWorker) {
  EXPECT_THAT(Refusal("0B0,0F0"), AllOf(HasSubstr("(cell 1, 0B0)"), HasSubstr("0F0")));
  EXPECT_THAT(Refusal("0F0,0W0,0I0"), AllOf(HasSubstr("(cell 2, 0W0)"), HasSubstr("0I0")));
}

TEST(ComputeCsvTest, RefusesAStageOnTwoWorkersAndNumbersOutOfRange) {
  EXPECT_THAT(Refusal("0F0,0B0\n1F0,0F1,1B0,0B1"),
              AllOf(HasSubstr("line 2, column 5 (cell 2, 0F1)"), HasSubstr("on two workers"), HasSubstr("line 1")));
  EXPECT_THAT(Refusal("4096F0"), HasSubstr("stages are numbered 0 to 4095"));
  EXPECT_THAT(Refusal("0F65536"), HasSubstr("micro-batches are numbered 0 to 65535"));
  EXPECT_THAT(Refusal("4095F65535"), HasSubstr("4096 stages x 65536 micro-batches"));
}

TEST(ComputeCsvTest, RefusesOtherLevels) {
  EXPECT_THAT(Refusal("0F0,0SEND_F0,0B0"), AllOf(HasSubstr("(cell 2, 0SEND_F0)"), HasSubstr("compute-only")));
  EXPECT_THAT(Refusal("0UNSHARD,0F0"), HasSubstr("compute-only"));
  EXPECT_THAT(Refusal("0R0"), HasSubstr("comes before the 0F0"));
}

// Any one cell of a table removed, doubled, or given another stage or kind is refused.
TEST(ComputeCsvTest, NoMutantOfATableIsATable) {
  const std::string csv = ComputeCsv(*(*FindSchedule("1f1b"))->Build({.num_workers = 3, .num_micro_batches = 4}));
  const ActionSheet sheet = *ReadActionCsv(csv);
  const auto refused = [](const ActionSheet& mutant) { return !TableOfSheet(mutant, "").ok(); };
  for (size_t row = 0; row < sheet.rows.size(); ++row) {
    for (size_t i = 0; i < sheet.rows[row].size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      ActionSheet mutant = sheet;
      mutant.rows[row].erase(mutant.rows[row].begin() + at);
      EXPECT_TRUE(refused(mutant)) << TextOf(mutant);
      mutant = sheet;
      mutant.rows[row].insert(mutant.rows[row].begin() + at, mutant.rows[row][i]);
      EXPECT_TRUE(refused(mutant)) << TextOf(mutant);
      mutant = sheet;
      mutant.rows[row][i].action.set_stage((mutant.rows[row][i].action.stage() + 1) % 3);
      EXPECT_TRUE(refused(mutant)) << TextOf(mutant);
      mutant = sheet;
      mutant.rows[row][i].action.set_kind(v1::ACTION_KIND_BACKWARD_WEIGHT);
      EXPECT_TRUE(refused(mutant)) << TextOf(mutant);
    }
  }
}

}  // namespace
}  // namespace stagecoach
