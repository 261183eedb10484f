#include "common/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace stagecoach {
namespace {

constexpr Backoff::Options kOptions{.first = absl::Milliseconds(50), .longest = absl::Seconds(1)};

TEST(BackoffTest, RetriesAtOnceThenDoublesUpToTheLongest) {
  Backoff backoff(kOptions, 7);
  EXPECT_EQ(backoff.Next(), absl::ZeroDuration());
  absl::Duration bound = kOptions.first;
  for (int i = 0; i < 20; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, bound / 2) << i;
    EXPECT_LE(wait, bound) << i;
    bound = std::min(2 * bound, kOptions.longest);
  }
}

TEST(BackoffTest, StartsAgainOnceItHasWorked) {
  Backoff backoff(kOptions, 7);
  for (int i = 0; i < 5; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::ZeroDuration());
  EXPECT_LE(backoff.Next(), kOptions.first);
}

TEST(BackoffTest, SpreadsThoseWhoFailedTogether) {
  std::vector<absl::Duration> waits;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Backoff backoff(kOptions, seed);
    for (int i = 0; i < 6; ++i) backoff.Next();
    waits.push_back(backoff.Next());
  }
  const auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  EXPECT_GT(*most - *least, kOptions.longest / 4);
}

}  // namespace
}  // namespace stagecoach
