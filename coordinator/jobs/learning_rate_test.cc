#include "coordinator/jobs/learning_rate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stagecoach {
namespace {

v1::LearningRateSpec Schedule(const std::string& name, uint64_t warmup_steps, double min_lr, uint64_t decay_steps) {
  v1::LearningRateSpec schedule;
  schedule.set_name(name);
  schedule.set_warmup_steps(warmup_steps);
  schedule.set_min_lr(min_lr);
  schedule.set_decay_steps(decay_steps);
  return schedule;
}

std::vector<double> Rates(const v1::LearningRateSpec& schedule, double lr, uint64_t steps) {
  std::vector<double> rates;
  for (uint64_t step = 1; step <= steps; ++step) rates.push_back(LearningRateOfStep(schedule, lr, step));
  return rates;
}

TEST(LearningRateTest, ConstantStaysAtLrAfterWarmUp) {
  EXPECT_EQ(Rates(Schedule("constant", 4, 0.1, 5), 1, 7), (std::vector<double>{0.25, 0.5, 0.75, 1, 1, 1, 1}));
}

TEST(LearningRateTest, LinearFallsToMinLrAtDecayStepsAndStaysThere) {
  EXPECT_EQ(Rates(Schedule("linear", 2, 0.5, 6), 1.5, 8),
            (std::vector<double>{0.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.5, 0.5}));
}

TEST(LearningRateTest, CosineHasItsGoldenValues) {
  // 0.1 + 0.9 x (1 + cos(pi k / 4)) / 2, computed with 30 digits.
  const std::vector<double> golden = {0.5, 1, 0.8681980515339464, 0.55, 0.2318019484660536, 0.1, 0.1};
  const std::vector<double> rates = Rates(Schedule("cosine", 2, 0.1, 6), 1, 7);
  ASSERT_EQ(rates.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) EXPECT_DOUBLE_EQ(rates[i], golden[i]) << "step " << i + 1;
}

TEST(LearningRateTest, WithoutWarmUpTheFirstStepIsAlreadyOnTheCurve) {
  EXPECT_EQ(Rates(Schedule("linear", 0, 0, 4), 1, 5), (std::vector<double>{0.75, 0.5, 0.25, 0, 0}));
}

TEST(LearningRateTest, DecayStepsWithinWarmUpGoesToMinLrAfterIt) {
  EXPECT_EQ(Rates(Schedule("cosine", 3, 0.25, 2), 3, 5), (std::vector<double>{1, 2, 3, 0.25, 0.25}));
}

TEST(LearningRateTest, WarmUpBeyondTheRunJustNeverEnds) {
  EXPECT_EQ(Rates(Schedule("cosine", 8, 0, 100), 8, 3), (std::vector<double>{1, 2, 3}));
}

TEST(LearningRateTest, TheLastWarmUpStepUsesExactlyLr) {
  for (uint64_t warmup = 1; warmup < 200; ++warmup) {
    EXPECT_EQ(LearningRateOfStep(Schedule("constant", warmup, 0, 0), 3e-4, warmup), 3e-4);
  }
}

}  // namespace
}  // namespace stagecoach
