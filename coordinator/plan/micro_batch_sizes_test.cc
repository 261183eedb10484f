#include "coordinator/plan/micro_batch_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::JobSpec SpecOf(uint64_t global_batch_size, uint32_t degree = 0) {
  v1::JobSpec spec;
  spec.mutable_training()->set_global_batch_size(global_batch_size);
  spec.mutable_training()->set_seq_len(128);
  spec.mutable_parallelism()->set_pipeline_parallel_degree(degree);
  spec.mutable_parallelism()->set_data_parallel_degree(1);
  return spec;
}

TEST(MicroBatchSizesTest, AreDivisorsThatGiveEachWorkerAMicroBatch) {
  EXPECT_THAT(MicroBatchSizes(SpecOf(24), 1), ElementsAre(1, 2, 3, 4, 6, 8, 12, 24));
  EXPECT_THAT(MicroBatchSizes(SpecOf(24), 4), ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(MicroBatchSizes(SpecOf(24, 2), 4), ElementsAre(1, 2, 3, 4, 6, 8, 12));  // the degree counts
}

TEST(MicroBatchSizesTest, AreOfOneReplicasSamples) {
  v1::JobSpec spec = SpecOf(24);
  spec.mutable_parallelism()->set_data_parallel_degree(4);
  EXPECT_THAT(MicroBatchSizes(spec, 1), ElementsAre(1, 2, 3, 6));
}

TEST(MicroBatchSizesTest, AreThereThoughSamplesAreFewerThanWorkers) {
  EXPECT_THAT(MicroBatchSizes(SpecOf(3), 8), ElementsAre(1, 3));
}

TEST(MicroBatchSizesTest, LeaveOutMicroBatchesThatAreManyUnlessThereIsNoOtherWay) {
  EXPECT_THAT(MicroBatchSizes(SpecOf(4096), 1024), ElementsAre(4));
  EXPECT_THAT(MicroBatchSizes(SpecOf(2003), 2), ElementsAre(1));  // a prime
}

TEST(MicroBatchSizesTest, AreFewWithBothEnds) {
  const std::vector<uint64_t> sizes = MicroBatchSizes(SpecOf(720'720), 1);
  ASSERT_EQ(sizes.size(), 16u);
  EXPECT_EQ(sizes.front(), 715u);
  EXPECT_EQ(sizes.back(), 65'520u);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  for (const uint64_t size : sizes) EXPECT_EQ(720'720 % size, 0u);
}

TEST(MicroBatchSizesTest, ThereMayBeNone) { EXPECT_THAT(MicroBatchSizes(SpecOf(65'537), 1), IsEmpty()); }

TEST(MicroBatchSizesTest, MeasuresBothEndsAndOneBetween) {
  EXPECT_THAT(SizesToMeasure({1, 2, 3, 4, 6}), ElementsAre(1, 3, 6));
  EXPECT_THAT(SizesToMeasure({1, 4}), ElementsAre(1, 4));
  EXPECT_THAT(SizesToMeasure({}), IsEmpty());
}

}  // namespace
}  // namespace stagecoach
