#include <gtest/gtest.h>

#include <string>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

// Jobs of two workers that leave the number of threads to the coordinator.
class DecideThreadsTest : public testing::Test {
 protected:
  DecideThreadsTest() { spec_.mutable_parallelism()->set_pipeline_parallel_degree(2); }
  // A worker that offers so many connects.
  void Offer(const std::string& name, uint32_t threads) {
    harness_.max_threads = threads;
    harness_.Connect(name);
  }
  void Submit() { job_ = harness_.Submit(spec_); }
  uint32_t Threads() const { return harness_.job(job_).history.spec->resources().threads_per_worker(); }
  uint32_t ThreadsOfNewestAssignment(const std::string& worker) {
    const auto assignments = harness_.Sent(worker, v1::CoordinatorMessage::kAssignStages);
    return assignments.empty() ? 0 : assignments.back().assign_stages().threads();
  }

  DecideHarness harness_;
  v1::JobSpec spec_ = SmallSpec();
  JobId job_;
};

TEST_F(DecideThreadsTest, WhoWasSubmittedBeforeAnyWorkerDialledGetsWhatItsGangOffers) {
  Submit();
  EXPECT_EQ(Threads(), 0u);
  Offer("a", 8);
  Offer("b", 6);
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->spec.resources().threads_per_worker(), 6u);
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(Threads(), 6u);
  EXPECT_EQ(ThreadsOfNewestAssignment("a"), 6u);
  EXPECT_EQ(ThreadsOfNewestAssignment("b"), 6u);
}

TEST_F(DecideThreadsTest, WorkersThatItDoesNotGetDoNotCount) {
  harness_.max_threads = 1;
  harness_.Connect("z", 1, "another");
  Offer("a", 8);
  Offer("b", 8);
  Submit();
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(Threads(), 8u);
}

TEST_F(DecideThreadsTest, TheyAreFixedOnceItHasBegun) {
  Offer("a", 4);
  Offer("b", 4);
  Submit();
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntil([&] { return harness_.job(job_).history.last_commit.step() == 2; });
  harness_.Restart();
  EXPECT_EQ(Threads(), 4u);
  for (const char* name : {"a", "b"}) {
    harness_.workers.at(name)->max_threads = 16;
    harness_.Dial(name);
  }
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(ThreadsOfNewestAssignment("a"), 4u);
  EXPECT_EQ(Threads(), 4u);
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideThreadsTest, AGangThatTrainedNoStepDoesNotFixThem) {
  Offer("a", 4);
  Offer("b", 4);
  Submit();
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(Threads(), 4u);
  harness_.Restart();  // before training began: it is queued again
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Threads(), 0u);
  Offer("c", 2);
  Offer("d", 2);
  harness_.Pass(harness_.state.options().reattach_timeout);
  ASSERT_TRUE(harness_.planning.has_value());
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(Threads(), 2u);
}

TEST_F(DecideThreadsTest, WhoNamesThemKeepsThem) {
  spec_.mutable_resources()->set_threads_per_worker(3);
  Offer("a", 8);
  Offer("b", 8);
  Submit();
  harness_.FinishPlanning(SmallPlan(2));
  EXPECT_EQ(Threads(), 3u);
  EXPECT_EQ(ThreadsOfNewestAssignment("a"), 3u);
  harness_.Restart();
  EXPECT_EQ(Threads(), 3u);
}

}  // namespace
}  // namespace stagecoach
