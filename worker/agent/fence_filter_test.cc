#include "worker/agent/fence_filter.h"

#include <gtest/gtest.h>

namespace stagecoach {
namespace {

v1::Fence Fence(const char* job, uint64_t epoch, uint64_t incarnation, uint64_t term) {
  v1::Fence fence;
  fence.set_job(job);
  fence.set_epoch(epoch);
  fence.set_incarnation(incarnation);
  fence.set_coordinator_term(term);
  return fence;
}

TEST(FenceFilterTest, DropsOlderEpochsOfTheSameJobOnly) {
  FenceFilter filter(Incarnation(1));
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 0, 1, 0)), nullptr);
  filter.Adopt(JobId("a"), Epoch(3));
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 2, 1, 0)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 3, 1, 0)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 4, 1, 0)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("b", 1, 1, 0)), nullptr);
  filter.Adopt(JobId("a"), Epoch(2));
  EXPECT_EQ(filter.epoch(), Epoch(3));
  filter.Adopt(JobId("b"), Epoch(1));
  EXPECT_EQ(filter.epoch(), Epoch(1));
}

TEST(FenceFilterTest, DropsWhatComesOfAJobThatAnotherFollowed) {
  FenceFilter filter(Incarnation(1));
  filter.Adopt(JobId("a"), Epoch(3));
  filter.Adopt(JobId("b"), Epoch(1));
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 2, 1, 0)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 3, 1, 0)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 4, 1, 0)), nullptr);
  // It may come back, in a new epoch.
  filter.Adopt(JobId("a"), Epoch(4));
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 4, 1, 0)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("b", 1, 1, 0)), nullptr);
}

TEST(FenceFilterTest, DropsWhatComesOfAnEpochThatEndedWhileTheWorkerHadAnotherJob) {
  FenceFilter filter(Incarnation(1));
  filter.Adopt(JobId("a"), Epoch(3));
  filter.NoteEnd(JobId("b"), Epoch(2));
  EXPECT_EQ(filter.job(), JobId("a"));
  EXPECT_NE(filter.ReasonToDrop(Fence("b", 1, 1, 0)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("b", 2, 1, 0)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("b", 3, 1, 0)), nullptr);
  filter.NoteEnd(JobId("b"), Epoch(1));
  EXPECT_NE(filter.ReasonToDrop(Fence("b", 2, 1, 0)), nullptr);
}

TEST(FenceFilterTest, DropsOtherIncarnationsAndOlderTerms) {
  FenceFilter filter(Incarnation(7));
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 1, 6, 9)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 1, 8, 9)), nullptr);
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 1, 7, 5)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 1, 7, 4)), nullptr);
  EXPECT_EQ(filter.FenceOf(JobId("a"), Epoch(1)).coordinator_term(), 5u);
  EXPECT_EQ(filter.ReasonToDrop(Fence("a", 1, 7, 6)), nullptr);
  EXPECT_NE(filter.ReasonToDrop(Fence("a", 1, 7, 5)), nullptr);
}

}  // namespace
}  // namespace stagecoach
