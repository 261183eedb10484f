#include <gmock/gmock.h>

#include "client/commands/testing/command_line_test.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class UsageTest : public CommandLineTest {};

TEST_F(UsageTest, HelpBeginsWithExamples) {
  const Result all = Run({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, StartsWith("  stagecoach train examples/tiny.yaml"));
  for (const char* verb :
       {"train",  "up",    "down",   "submit",   "get",  "describe", "logs",       "events", "wait",       "trace",
        "cancel", "pause", "resume", "validate", "plan", "schedule", "checkpoint", "config", "completion", "version"}) {
    EXPECT_THAT(all.out, HasSubstr(std::string("\n  ") + verb));
    EXPECT_THAT(Run({verb, "--help"}).out, StartsWith("  ")) << verb;
  }
}

TEST_F(UsageTest, WithoutAVerbTheHelpIsAnError) {
  const Result result = Run({});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("  stagecoach train"));
}

TEST_F(UsageTest, UnknownVerbsComeWithASuggestion) {
  EXPECT_THAT(Run({"sumbit", "spec.yaml"}).err,
              StartsWith("stagecoach: unknown verb \"sumbit\"; did you mean submit?\nsee stagecoach --help\n"));
  EXPECT_THAT(Run({"get", "wrokers"}).err, StartsWith("stagecoach: unknown verb \"wrokers\"; did you mean workers?\n"));
  EXPECT_THAT(Run({"xyzzy"}).err, StartsWith("stagecoach: unknown verb \"xyzzy\"\n"));
  EXPECT_EQ(Run({"sumbit"}).code, 2);
}

TEST_F(UsageTest, UnknownOptionsToo) {
  const Result result = Run({"submit", "spec.yaml", "--folow"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "stagecoach: unknown option \"--folow\"; did you mean --follow?\nsee stagecoach submit --help\n");
  EXPECT_THAT(Run({"train", "spec.yaml", "--worker=3"}).err, HasSubstr("did you mean --workers?"));
}

TEST_F(UsageTest, OtherMistakesAreTwo) {
  EXPECT_EQ(Run({"train"}).code, 2);
  EXPECT_EQ(Run({"train", "spec.yaml", "--workers", "0"}).code, 2);
  EXPECT_EQ(Run({"train", "spec.yaml", "--device", "abacus"}).code, 2);
  EXPECT_EQ(Run({"get", "jobs", "-o", "xml"}).code, 2);
  EXPECT_EQ(Run({"wait"}).code, 2);
  EXPECT_EQ(Run({"up", "--workers", "0"}).code, 2);
  EXPECT_EQ(Run({"up", "--device", "simulated"}).code, 2);
  EXPECT_THAT(Run({"up", "--device", "simulated", "--simulated-block-seconds", "1,1"}).err, HasSubstr("has 2 values"));
  EXPECT_THAT(Run({"up", "--simulated-block-seconds", "1,1,1"}).err, HasSubstr("and the device is cpu"));
  EXPECT_EQ(Run({"submit", "a", "--follow", "--wait"}).code, 2);
}

}  // namespace
}  // namespace stagecoach
