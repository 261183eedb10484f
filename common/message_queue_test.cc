#include "common/message_queue.h"

#include <gtest/gtest.h>

#include "common/named_thread.h"

namespace stagecoach {
namespace {

TEST(MessageQueueTest, DeliversInOrder) {
  MessageQueue<int> queue(4);
  ASSERT_TRUE(queue.Push(1).ok());
  ASSERT_TRUE(queue.Push(2).ok());
  EXPECT_EQ(*queue.Pop(absl::ZeroDuration()), 1);
  EXPECT_EQ(*queue.Pop(absl::ZeroDuration()), 2);
}

TEST(MessageQueueTest, RefusesWhenFull) {
  MessageQueue<int> queue(1);
  ASSERT_TRUE(queue.Push(1).ok());
  EXPECT_EQ(queue.Push(2).code(), absl::StatusCode::kResourceExhausted);
}

TEST(MessageQueueTest, PopTimesOut) {
  MessageQueue<int> queue(1);
  EXPECT_EQ(queue.Pop(absl::Milliseconds(1)).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(MessageQueueTest, CloseDeliversWhatWasPushedThenWakesEveryWaiter) {
  MessageQueue<int> queue(1);
  ASSERT_TRUE(queue.Push(7).ok());
  queue.Close();
  EXPECT_EQ(*queue.Pop(absl::InfiniteDuration()), 7);
  EXPECT_EQ(queue.Pop(absl::InfiniteDuration()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queue.Push(8).code(), absl::StatusCode::kUnavailable);
}

TEST(MessageQueueTest, PopWaitsForAnotherThread) {
  MessageQueue<int> queue(1);
  NamedThread producer("producer", [&queue] { ASSERT_TRUE(queue.Push(5).ok()); });
  EXPECT_EQ(*queue.Pop(absl::InfiniteDuration()), 5);
}

TEST(MessageQueueTest, KeepsItsOrderWhileItGrowsAndWraps) {
  MessageQueue<int> queue(100);
  int pushed = 0, popped = 0;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 13; ++i) ASSERT_TRUE(queue.Push(pushed++).ok());
    for (int i = 0; i < 6; ++i) ASSERT_EQ(*queue.Pop(absl::ZeroDuration()), popped++);
  }
  while (popped < pushed) ASSERT_EQ(*queue.Pop(absl::ZeroDuration()), popped++);
  EXPECT_FALSE(queue.Pop(absl::ZeroDuration()).ok());
}

}  // namespace
}  // namespace stagecoach
