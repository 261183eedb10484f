#include <gmock/gmock.h>

#include "client/commands/testing/command_line_test.h"
#include "client/output/json.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChangesTest : public CommandLineTest {};

TEST_F(ChangesTest, CancelPauseAndResumeAskForIt) {
  PutJob("gpt", v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Run({"pause", "gpt"}).code, 0);
  EXPECT_EQ(Run({"resume", "gpt"}).code, 0);
  const Result cancel = Run({"cancel", "gpt", "-o", "json"});
  EXPECT_EQ(cancel.code, 0);
  EXPECT_EQ(Json::parse(cancel.out)["state"], "CANCELLED");
  EXPECT_THAT(service_.calls().changes, ElementsAre("pause gpt", "resume gpt", "cancel gpt"));
}

TEST_F(ChangesTest, WithoutATerminalNothingIsAsked) {
  PutJob("gpt", v1::JOB_STATE_RUNNING);
  const Result result = Run({"cancel", "gpt"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::Not(testing::HasSubstr("[y/N]")));
}

TEST_F(ChangesTest, ADryRunDoesNothing) {
  PutJob("gpt", v1::JOB_STATE_RUNNING, 3);
  const Result result = Run({"cancel", "gpt", "--dry-run"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "nothing was done: job gpt is RUNNING at step 3\n");
  EXPECT_THAT(service_.calls().changes, IsEmpty());
}

TEST_F(ChangesTest, WhatTheStateForbidsIsNineAndWhatIsNotThereFive) {
  PutJob("gpt", v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"cancel", "gpt", "--yes"}).code, 9);
  EXPECT_EQ(Run({"pause", "gpt"}).code, 9);
  EXPECT_EQ(Run({"resume", "gpt"}).code, 9);
  EXPECT_EQ(Run({"cancel", "none"}).code, 5);
}

}  // namespace
}  // namespace stagecoach
