#include "coordinator/service/membership.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(MembershipTest, LeavingEndsWhatWasJoined) {
  Membership<int> membership;
  EXPECT_TRUE(membership.Join(7));
  EXPECT_TRUE(membership.Join(8));  // again: the first has ended by itself
  EXPECT_FALSE(membership.has_left());
  const auto leaving = membership.Leave();
  EXPECT_TRUE(leaving.is_first);
  EXPECT_EQ(leaving.id, 8);
  EXPECT_TRUE(membership.has_left());
}

TEST(MembershipTest, AJoinThatComesTooLateIsTheCallersToEnd) {
  Membership<int> membership;
  const auto leaving = membership.Leave();
  EXPECT_TRUE(leaving.is_first);
  EXPECT_FALSE(leaving.id.has_value());
  EXPECT_FALSE(membership.Join(7));
}

TEST(MembershipTest, OneLeavesOnce) {
  Membership<int> membership;
  EXPECT_TRUE(membership.Join(7));
  EXPECT_TRUE(membership.Leave().is_first);
  const auto again = membership.Leave();
  EXPECT_FALSE(again.is_first);
  EXPECT_FALSE(again.id.has_value());
}

}  // namespace
}  // namespace stagecoach
