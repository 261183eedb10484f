#include "coordinator/program/program_parser.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/testing/small_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using testing::MakeSmallPipeline;
using testing::SmallPipeline;
using ::testing::StartsWith;

std::string TextOf(const std::vector<v1::StageProgram>& programs) {
  std::string text;
  for (const v1::StageProgram& program : programs) absl::StrAppend(&text, ProgramText(program), "\n");
  return text;
}

TEST(ProgramParserTest, ProgramsSurviveBeingPrintedAndRead) {
  for (const char* schedule : {"gpipe", "1f1b", "forward_only"}) {
    for (const uint32_t p : {1u, 2u, 4u}) {
      for (const bool tied : {false, true}) {
        const SmallPipeline pipeline =
            MakeSmallPipeline(schedule, {.num_stages = p, .num_micro_batches = 5, .tied = tied});
        const absl::StatusOr<std::vector<v1::StageProgram>> again = ParseProgramText(TextOf(pipeline.programs));
        ASSERT_TRUE(again.ok()) << again.status();
        ASSERT_EQ(again->size(), pipeline.programs.size());
        for (size_t worker = 0; worker < again->size(); ++worker) {
          EXPECT_TRUE(MessageDifferencer::Equals((*again)[worker], pipeline.programs[worker]));
          EXPECT_EQ((*again)[worker].content_hash(), pipeline.programs[worker].content_hash());
        }
      }
    }
  }
}

std::string Refusal(absl::string_view text) {
  const absl::StatusOr<std::vector<v1::StageProgram>> programs = ParseProgramText(text);
  EXPECT_EQ(programs.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(programs.status().message());
}

TEST(ProgramParserTest, NamesThePlaceOfAMistake) {
  const std::string head = "program x worker 0 micro_batches 1 arena 64 scratch 0+64\n";
  EXPECT_EQ(Refusal("\n"), "the text is empty");
  EXPECT_EQ(Refusal("0F0"), "line 1, column 1: expected program");
  EXPECT_THAT(Refusal("program x worker a"), StartsWith("line 1, column 18: \"a\" is no number of worker"));
  EXPECT_THAT(Refusal(absl::StrReplaceAll(head, {{"0+64", "0-64"}})),
              HasSubstr("column 53: expected offset and bytes"));
  EXPECT_THAT(Refusal(head + "channel 1"), StartsWith("line 2, column 9: expected 0, not \"1\""));
  EXPECT_THAT(Refusal(head + "channel 0 letters"),
              HasSubstr("expected activation, gradient, skip, skip_gradient, tie or state"));
  EXPECT_THAT(Refusal(head + "stage 0 layers 0-1"),
              HasSubstr("column 16: expected layers, two numbers with .. between"));
  EXPECT_THAT(Refusal(head + "0F0 saved 0 load 0"), StartsWith("line 2, column 13: expected the end of the line"));
  EXPECT_THAT(Refusal(head + "0F0 recv 1"), HasSubstr("expected channel and slot"));
  EXPECT_THAT(Refusal(head + "0SEND_F0 #x"), HasSubstr("\"#x\" is no #number"));
  EXPECT_THAT(Refusal(head + "0F0 saved 2147483648"), HasSubstr("0 to 2147483647"));
}

}  // namespace
}  // namespace stagecoach
