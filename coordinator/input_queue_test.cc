#include "coordinator/input_queue.h"

#include <gtest/gtest.h>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

TEST(InputQueueTest, KeepsOrderAndTheTimeOfArrival) {
  SimulatedClock clock;
  InputQueue queue(clock, 10, 0);
  int ran = 0;
  ASSERT_TRUE(queue.Push([&] { ran = 1; }).ok());
  clock.Advance(absl::Seconds(2));
  ASSERT_TRUE(queue.Push([&] { ran = 2; }).ok());
  auto first = queue.Pop(absl::ZeroDuration());
  EXPECT_EQ(first->arrived, absl::ZeroDuration());
  first->run();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration())->arrived, absl::Seconds(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(queue.Pop(absl::ZeroDuration()).status()));
}

TEST(InputQueueTest, ReservedPlacesAreForWhatMustNotBeLost) {
  SimulatedClock clock;
  InputQueue queue(clock, 2, 1);
  const auto nothing = [] {};
  EXPECT_TRUE(queue.Push(nothing).ok());
  EXPECT_TRUE(queue.Push(nothing).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Push(nothing)));
  EXPECT_TRUE(queue.PushReserved(nothing).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.PushReserved(nothing)));
}

TEST(InputQueueTest, DeliversWhatCameBeforeItWasClosed) {
  SimulatedClock clock;
  InputQueue queue(clock, 2, 0);
  EXPECT_TRUE(queue.Push([] {}).ok());
  queue.Close();
  EXPECT_TRUE(absl::IsUnavailable(queue.Push([] {})));
  EXPECT_TRUE(queue.Pop(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(absl::IsUnavailable(queue.Pop(absl::InfiniteDuration()).status()));
}

}  // namespace
}  // namespace stagecoach
