// A worker's session that breaks, and is followed by another in time.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/testing/recovery_test.h"

namespace stagecoach {
namespace {

using SessionTest = RecoveryTest;

TEST_F(SessionTest, ASessionMayBreakAfterAnyMessageAndTheBitsAreTheSame) {
  int breaks = 0;
  for (int at = 0;; ++at) {
    harness_ = DecideHarness();
    Begin(harness_);
    int steps = 0;
    harness_.RunUntil([&] { return steps++ == at; });
    if (steps <= at) break;
    if (HasEnded(state())) continue;
    SCOPED_TRACE(absl::StrCat("after ", at, " messages, step ", step()));
    ++breaks;
    const char* const name = kWorkers[at % 3];
    harness_.Break(name);
    EXPECT_EQ(harness_.worker(name).presence, WorkerPresence::kSuspect);
    harness_.Pass(FleetOptions().suspect_grace - absl::Milliseconds(1));
    harness_.Dial(name);
    EXPECT_FALSE(HasEnded(state()));
    ExpectTheSameEnd();
  }
  EXPECT_GT(breaks, 40);
}

// Whatever broke its session broke its transfers too, and the peers were faster to say so.
TEST_F(SessionTest, AMemberThatIsBackInTimeIsForgivenWhatItsPeersReport) {
  ReachStep(1);
  harness_.Break("b");
  v1::WorkerMessage failed = harness_.Fenced("a", job_);
  failed.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failed.mutable_failure()->set_message("the peer is gone");
  EXPECT_TRUE(harness_.Say("a", failed));
  EXPECT_EQ(phase(), Phase::kAborting);
  harness_.Dial("b");
  EXPECT_EQ(phase(), Phase::kPreparingStages);
  EXPECT_EQ(record().history.epoch, Epoch(3));
  ExpectTheSameEnd();
}

// All members have answered that they aborted before it is known that the session of one of them broke.
TEST_F(SessionTest, ASessionThatBreaksWithinTheGraceOfTheAnswersIsTheCause) {
  ReachStep(1);
  v1::WorkerMessage failed = harness_.Fenced("a", job_);
  failed.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failed.mutable_failure()->set_message("the peer is gone");
  EXPECT_TRUE(harness_.Say("a", failed));
  harness_.RunUntilQuiet();
  EXPECT_EQ(phase(), Phase::kAborting);
  harness_.Break("b");
  harness_.Pass(FleetOptions().suspect_grace - absl::Milliseconds(1));
  EXPECT_EQ(phase(), Phase::kAborting);
  harness_.Dial("b");
  EXPECT_EQ(phase(), Phase::kPreparingStages);
  ExpectTheSameEnd();
}

TEST_F(SessionTest, ASecondSessionOfTheSameProcessEndsTheFirst) {
  ReachStep(1);
  const SessionId first = harness_.sessions.at("b");
  harness_.Dial("b");
  EXPECT_EQ(harness_.ended_sessions.at(first).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(record().history.epoch, Epoch(2));
  ExpectTheSameEnd();
}

TEST_F(SessionTest, AMemberThatBreaksTwiceBeginsTwoEpochs) {
  ReachStep(1);
  harness_.Break("b");
  harness_.Break("c");
  harness_.Dial("c");
  EXPECT_EQ(record().history.epoch, Epoch(2));
  harness_.Dial("b");
  EXPECT_EQ(record().history.epoch, Epoch(3));
  ExpectTheSameEnd();
}

}  // namespace
}  // namespace stagecoach
