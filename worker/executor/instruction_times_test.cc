#include "worker/executor/instruction_times.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stagecoach {
namespace {

void RecordMany(InstructionTimes& times, int count, absl::Duration took) {
  for (int i = 0; i < count; ++i) times.Record(0, took);
}

TEST(InstructionTimesTest, SaysNothingAfterTooFewRuns) {
  InstructionTimes times(2);
  RecordMany(times, InstructionTimes::kMinRuns - 1, absl::Seconds(1));
  EXPECT_EQ(times.UsualSeconds(0), 0);
  times.Record(0, absl::Seconds(1));
  EXPECT_GT(times.UsualSeconds(0), 0);
  EXPECT_EQ(times.UsualSeconds(1), 0);
}

TEST(InstructionTimesTest, IsNeverTooShortAndAtMostHalfAPowerOfTwoTooLong) {
  for (double seconds = 1.5e-6; seconds < 3600; seconds *= 1.3) {
    InstructionTimes times(1);
    RecordMany(times, 20, absl::Seconds(seconds));
    EXPECT_GE(times.UsualSeconds(0), seconds * (1 - 1e-9));
    EXPECT_LE(times.UsualSeconds(0), seconds * std::sqrt(2) * (1 + 1e-9));
  }
}

TEST(InstructionTimesTest, OneRunInAHundredMayBeLonger) {
  InstructionTimes times(1);
  RecordMany(times, 99, absl::Milliseconds(10));
  times.Record(0, absl::Seconds(10));
  EXPECT_LT(times.UsualSeconds(0), 0.015);
  times.Record(0, absl::Seconds(10));
  EXPECT_GT(times.UsualSeconds(0), 10);
}

TEST(InstructionTimesTest, OfFewRunsTheLongestCounts) {
  InstructionTimes times(1);
  RecordMany(times, 20, absl::Milliseconds(10));
  times.Record(0, absl::Seconds(3));
  EXPECT_GE(times.UsualSeconds(0), 3);
}

TEST(InstructionTimesTest, TakesTheShortestAndTheLongest) {
  InstructionTimes times(1);
  RecordMany(times, 20, absl::ZeroDuration());
  EXPECT_LE(times.UsualSeconds(0), 2e-6);
  RecordMany(times, 20, absl::Hours(100));
  EXPECT_GT(times.UsualSeconds(0), 3600);
}

}  // namespace
}  // namespace stagecoach
