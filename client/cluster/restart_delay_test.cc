#include "client/cluster/restart_delay.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(RestartDelayTest, DoublesForWhoDiesAtOnceUpToALimit) {
  RestartDelay delay;
  EXPECT_EQ(delay.AfterDeath(absl::ZeroDuration()), RestartDelay::kFirst);
  EXPECT_EQ(delay.AfterDeath(absl::ZeroDuration()), 2 * RestartDelay::kFirst);
  EXPECT_EQ(delay.AfterDeath(absl::Seconds(1)), 4 * RestartDelay::kFirst);
  for (int i = 0; i < 100; ++i) delay.AfterDeath(absl::ZeroDuration());
  EXPECT_EQ(delay.AfterDeath(absl::ZeroDuration()), RestartDelay::kLongest);
}

TEST(RestartDelayTest, IsShortAgainAfterASoundLife) {
  RestartDelay delay;
  for (int i = 0; i < 10; ++i) delay.AfterDeath(absl::ZeroDuration());
  EXPECT_EQ(delay.AfterDeath(RestartDelay::kSound), RestartDelay::kFirst);
}

}  // namespace
}  // namespace stagecoach
