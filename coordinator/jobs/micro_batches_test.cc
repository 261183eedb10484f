#include "coordinator/jobs/micro_batches.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

TEST(MicroBatchesTest, FullStepHasEqualWeights) {
  const MicroBatches batches = DivideSamples(8, 8, 4, 2);
  EXPECT_EQ(batches.samples, (std::vector<uint32_t>{2, 2, 2, 2}));
  EXPECT_EQ(batches.loss_weight, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
}

TEST(MicroBatchesTest, WhatIsLeftMakesARaggedOneAndEmptyOnes) {
  const MicroBatches batches = DivideSamples(3, 3, 4, 2);
  EXPECT_EQ(batches.samples, (std::vector<uint32_t>{2, 1, 0, 0}));
  EXPECT_EQ(batches.loss_weight, (std::vector<double>{2.0 / 3, 1.0 / 3, 0, 0}));
}

TEST(MicroBatchesTest, WeightsMayBeRelativeToMoreThanOneRun) {
  const MicroBatches batches = DivideSamples(3, 16, 2, 2);
  EXPECT_EQ(batches.loss_weight, (std::vector<double>{0.125, 0.0625}));
}

}  // namespace
}  // namespace stagecoach
