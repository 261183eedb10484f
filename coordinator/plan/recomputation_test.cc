#include "coordinator/plan/recomputation.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::optional<uint64_t> LeastTicks(const std::vector<RecomputeOption>& options, uint64_t needed_bytes) {
  std::optional<uint64_t> least;
  for (uint32_t set = 0; set < 1u << options.size(); ++set) {
    RecomputeOption sum;
    for (size_t i = 0; i < options.size(); ++i) {
      if ((set >> i & 1u) == 0) continue;
      sum.ticks += options[i].ticks;
      sum.bytes += options[i].bytes;
    }
    if (sum.bytes >= needed_bytes) least = std::min(least.value_or(UINT64_MAX), sum.ticks);
  }
  return least;
}

TEST(RecomputationTest, NoSetThatFreesEnoughTakesLess) {
  std::mt19937 random(5);
  int num_impossible = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<RecomputeOption> options(random() % 9);
    for (RecomputeOption& option : options) option = {random() % 12, random() % 12};
    const uint64_t needed_bytes = random() % 40;
    const std::optional<Recomputation> cheapest = CheapestRecomputation(options, needed_bytes);
    const std::optional<uint64_t> least = LeastTicks(options, needed_bytes);
    ASSERT_EQ(cheapest.has_value(), least.has_value());
    if (!least.has_value()) {
      ++num_impossible;
      continue;
    }
    ASSERT_EQ(cheapest->ticks, *least);
    RecomputeOption sum;
    for (const uint32_t option : cheapest->chosen) {
      sum.ticks += options[option].ticks;
      sum.bytes += options[option].bytes;
    }
    ASSERT_EQ(sum.ticks, *least);
    ASSERT_GE(sum.bytes, needed_bytes);
    ASSERT_TRUE(std::is_sorted(cheapest->chosen.begin(), cheapest->chosen.end()));
  }
  EXPECT_GT(num_impossible, 100);
  EXPECT_LT(num_impossible, 1500);
}

TEST(RecomputationTest, NothingIsRecomputedForNothing) {
  const std::vector<RecomputeOption> options = {{1, 10}, {0, 10}};
  EXPECT_THAT(CheapestRecomputation(options, 0)->chosen, IsEmpty());
  EXPECT_THAT(CheapestRecomputation(options, 1)->chosen, ElementsAre(1));
}

TEST(RecomputationTest, OfEqualLayersOnlyAsManyAsAreNeeded) {
  const std::vector<RecomputeOption> options(500, {7, 100});
  EXPECT_EQ(CheapestRecomputation(options, 20'001)->chosen.size(), 201u);
  EXPECT_EQ(CheapestRecomputation(options, 50'000)->ticks, 3500u);
  EXPECT_FALSE(CheapestRecomputation(options, 50'001).has_value());
}

// Powers of two make every set a point of the frontier, so that it is thinned.
TEST(RecomputationTest, AThinnedFrontierStaysWithinItsBound) {
  std::vector<RecomputeOption> options;
  uint64_t all_ticks = 0;
  for (uint32_t i = 0; i < 24; ++i) {
    options.push_back({uint64_t{1} << i, uint64_t{1} << i});
    all_ticks += options.back().ticks;
  }
  for (const uint64_t needed_bytes : {1u, 5'000'001u, 9'999'999u}) {
    const std::optional<Recomputation> cheapest = CheapestRecomputation(options, needed_bytes);
    ASSERT_TRUE(cheapest.has_value());
    EXPECT_GE(cheapest->ticks, needed_bytes);
    EXPECT_LE(cheapest->ticks, needed_bytes + options.size() * (all_ticks / kMaxRecomputeFrontier + 1));
  }
}

}  // namespace
}  // namespace stagecoach
