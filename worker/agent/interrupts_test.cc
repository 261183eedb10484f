#include "worker/agent/interrupts.h"

#include <gtest/gtest.h>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

class InterruptsTest : public testing::Test {
 protected:
  SimulatedClock clock_;
  Interrupts interrupts_{clock_};
};

TEST_F(InterruptsTest, MeetsTheGenerationAndOlderOnes) {
  EXPECT_TRUE(interrupts_.Check(1).ok());
  interrupts_.Interrupt(2, absl::AbortedError("why"));
  EXPECT_EQ(interrupts_.Check(1).message(), "why");
  EXPECT_EQ(interrupts_.Check(2).message(), "why");
  EXPECT_TRUE(interrupts_.Check(3).ok());
  interrupts_.Interrupt(1, absl::AbortedError("late"));
  EXPECT_EQ(interrupts_.Check(1).message(), "why");
}

TEST_F(InterruptsTest, CallsWhoIsRegisteredForIt) {
  int older = 0, newer = 0;
  const Interrupts::Registration first(interrupts_, 1, [&](const absl::Status&) { ++older; });
  const Interrupts::Registration second(interrupts_, 2, [&](const absl::Status&) { ++newer; });
  interrupts_.Interrupt(1, absl::AbortedError("why"));
  EXPECT_EQ(older, 1);
  EXPECT_EQ(newer, 0);
}

TEST_F(InterruptsTest, CallsAtOnceWhoRegistersTooLate) {
  interrupts_.Interrupt(3, absl::AbortedError("why"));
  std::string reason;
  const Interrupts::Registration registration(interrupts_, 3,
                                              [&](const absl::Status& why) { reason = why.ToString(); });
  EXPECT_EQ(reason, "ABORTED: why");
}

TEST_F(InterruptsTest, DoesNotCallWhoIsGone) {
  int calls = 0;
  {
    const Interrupts::Registration registration(interrupts_, 1, [&](const absl::Status&) { ++calls; });
  }
  interrupts_.Interrupt(1, absl::AbortedError("why"));
  EXPECT_EQ(calls, 0);
}

TEST_F(InterruptsTest, ChecksFailFromTheEndOfTheLeaseUntilThereIsAnother) {
  interrupts_.SetLeaseEnd(absl::Seconds(3));
  clock_.Advance(absl::Milliseconds(2999));
  EXPECT_TRUE(interrupts_.Check(1).ok());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(interrupts_.Check(1).code(), absl::StatusCode::kAborted);
  interrupts_.SetLeaseEnd(absl::Seconds(6));
  EXPECT_TRUE(interrupts_.Check(1).ok());
}

}  // namespace
}  // namespace stagecoach
