#include "worker/agent/clock_offset.h"

#include <gtest/gtest.h>

#include <random>

namespace stagecoach {
namespace {

constexpr absl::Duration kMs = absl::Milliseconds(1);

TEST(ClockOffsetEstimatorTest, KnowsNothingBeforeAnAnswer) {
  ClockOffsetEstimator estimator;
  estimator.OnSent(0, absl::Seconds(1));
  EXPECT_EQ(estimator.At(absl::Seconds(1)), std::nullopt);
  estimator.OnAnswer(7, absl::Seconds(5), absl::Seconds(2));  // to what was never sent
  EXPECT_EQ(estimator.At(absl::Seconds(2)), std::nullopt);
}

TEST(ClockOffsetEstimatorTest, GuessesTheMiddleOfTheRoundTripAndIsOffByHalfOfIt) {
  ClockOffsetEstimator estimator;
  estimator.OnSent(0, 100 * kMs);
  estimator.OnAnswer(0, 5'000 * kMs, 104 * kMs);
  const auto estimate = estimator.At(104 * kMs);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->offset, 5'000 * kMs - 102 * kMs);
  EXPECT_EQ(estimate->error, 2 * kMs);
}

TEST(ClockOffsetEstimatorTest, KeepsTheSampleWithTheSmallestRoundTrip) {
  ClockOffsetEstimator estimator;
  estimator.OnSent(0, 0 * kMs);
  estimator.OnAnswer(0, 1'020 * kMs, 40 * kMs);  // offset 1000
  estimator.OnSent(1, 50 * kMs);
  estimator.OnAnswer(1, 1'053 * kMs, 52 * kMs);  // 1002, and much quicker
  estimator.OnSent(2, 60 * kMs);
  estimator.OnAnswer(2, 1'090 * kMs, 80 * kMs);  // 1020
  EXPECT_EQ(estimator.At(80 * kMs)->offset, 1'002 * kMs);
}

TEST(ClockOffsetEstimatorTest, AnOldSampleIsWorthLess) {
  ClockOffsetEstimator estimator;
  estimator.OnSent(0, 0 * kMs);
  estimator.OnAnswer(0, 501 * kMs, 2 * kMs);
  EXPECT_EQ(estimator.At(absl::Seconds(10) + 2 * kMs)->error, 3 * kMs);  // 1 ms, and 200 ppm of 10 s
  const absl::Duration later = absl::Seconds(60);
  estimator.OnSent(1, later);
  estimator.OnAnswer(1, later + 703 * kMs, later + 6 * kMs);
  EXPECT_EQ(estimator.At(later + 6 * kMs)->offset, 700 * kMs);
  EXPECT_EQ(estimator.At(later + 6 * kMs)->error, 3 * kMs);
}

TEST(ClockOffsetEstimatorTest, AnswersThatNeverComeAreForgotten) {
  ClockOffsetEstimator estimator;
  for (uint64_t sequence = 1; sequence <= 1000; ++sequence) estimator.OnSent(sequence, absl::Seconds(sequence));
  estimator.OnAnswer(2, absl::Seconds(5), absl::Seconds(1000));  // too old
  EXPECT_EQ(estimator.At(absl::Seconds(1000)), std::nullopt);
}

TEST(ClockOffsetEstimatorTest, StartsAgainWithAnotherCoordinator) {
  ClockOffsetEstimator estimator;
  estimator.OnSent(0, 0 * kMs);
  estimator.OnAnswer(0, 500 * kMs, 2 * kMs);
  estimator.Reset();
  EXPECT_EQ(estimator.At(3 * kMs), std::nullopt);
  estimator.OnSent(0, 10 * kMs);
  estimator.OnAnswer(0, 90 * kMs, 30 * kMs);
  EXPECT_EQ(estimator.At(30 * kMs)->offset, 70 * kMs);
}

// Whatever the delays of both directions and the difference of the clocks' rates: the truth is within the error.
TEST(ClockOffsetEstimatorTest, TheTruthIsWithinTheError) {
  std::mt19937 random(1);
  std::exponential_distribution<double> delay_ms(0.5);
  for (const double drift : {-150e-6, 0.0, 150e-6}) {
    ClockOffsetEstimator estimator;
    const auto remote_at = [&](absl::Duration local) { return absl::Seconds(1234) + local * (1 + drift); };
    absl::Duration now;
    for (uint64_t sequence = 0; sequence < 2000; ++sequence) {
      estimator.OnSent(sequence, now);
      const absl::Duration there = now + delay_ms(random) * kMs;
      const absl::Duration back = there + delay_ms(random) * kMs;
      estimator.OnAnswer(sequence, remote_at(there), back);
      const auto estimate = estimator.At(back);
      ASSERT_LE(absl::AbsDuration(remote_at(back) - back - estimate->offset), estimate->error + absl::Nanoseconds(1));
      now += 250 * kMs;
    }
    EXPECT_LT(estimator.At(now)->error, 3 * kMs);
  }
}

}  // namespace
}  // namespace stagecoach
