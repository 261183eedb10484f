#include "worker/data/sample_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace stagecoach {
namespace {

std::vector<uint64_t> Pass(const SampleOrder& order, uint64_t pass, uint64_t num_samples) {
  std::vector<uint64_t> samples(num_samples);
  for (uint64_t i = 0; i < num_samples; ++i) samples[i] = order.SampleAt(pass, i);
  return samples;
}

TEST(SampleOrderTest, EveryPassTakesEverySampleOnce) {
  for (uint64_t n = 1; n <= 130; ++n) {
    const SampleOrder order(7, n);
    for (uint64_t pass = 0; pass < 3; ++pass) {
      std::vector<uint64_t> samples = Pass(order, pass, n);
      std::sort(samples.begin(), samples.end());
      for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(samples[i], i) << n;
    }
  }
}

TEST(SampleOrderTest, IsTheSameForEver) {
  EXPECT_THAT(Pass(SampleOrder(1, 10), 0, 10), testing::ElementsAre(8, 9, 0, 7, 5, 1, 6, 4, 3, 2));
  EXPECT_THAT(Pass(SampleOrder(1, 10), 1, 10), testing::ElementsAre(6, 7, 3, 0, 5, 8, 1, 9, 2, 4));
}

TEST(SampleOrderTest, SeedsAndPassesDiffer) {
  const std::vector<uint64_t> samples = Pass(SampleOrder(1, 100), 0, 100);
  EXPECT_NE(Pass(SampleOrder(1, 100), 1, 100), samples);
  EXPECT_NE(Pass(SampleOrder(2, 100), 0, 100), samples);
}

// Of each position over many passes: a chi-square test of 16 samples, 15 degrees of freedom, whose 99.99th percentile
// is 44.3; 16 positions are tested.
TEST(SampleOrderTest, EveryPositionSeesEverySampleEquallyOften) {
  constexpr uint64_t kSamples = 16, kPasses = 3200;
  const SampleOrder order(3, kSamples);
  for (uint64_t position = 0; position < kSamples; ++position) {
    std::vector<double> counts(kSamples);
    for (uint64_t pass = 0; pass < kPasses; ++pass) ++counts[order.SampleAt(pass, position)];
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - 200) * (count - 200) / 200;
    EXPECT_LT(chi_square, 44.3) << position;
  }
}

TEST(SampleOrderTest, WorksAtTheEdgesOf64Bits) {
  const uint64_t n = (uint64_t{1} << 63) + 1;
  const SampleOrder order(1, n);
  EXPECT_LT(order.SampleAt(0, n - 1), n);
  EXPECT_NE(order.SampleAt(0, n - 1), order.SampleAt(0, 0));
}

}  // namespace
}  // namespace stagecoach
