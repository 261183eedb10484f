// Which workers a coordinator that was restarted waits for before it plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/decide.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

constexpr const char* kWorkers[] = {"a", "b", "c"};

// Its job takes all workers, and needs but one.
class FleetAfterRestartTest : public testing::Test {
 protected:
  FleetAfterRestartTest() {
    for (const char* name : kWorkers) harness_.Connect(name);
  }
  size_t NumPlannedFor() const { return harness_.planning.has_value() ? harness_.planning->workers.size() : 0; }

  DecideHarness harness_;
};

TEST_F(FleetAfterRestartTest, AJobThatIsPlannedAgainGetsAllWorkersAgain) {
  const JobId job = harness_.Submit(SmallSpec());
  EXPECT_EQ(NumPlannedFor(), 3u);
  harness_.Restart();
  EXPECT_EQ(harness_.job(job).history.state, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(harness_.job(job).history.message, HasSubstr("waits for those of before the coordinator's restart"));
  harness_.Dial("b");
  harness_.Dial("a");
  EXPECT_EQ(NumPlannedFor(), 0u);
  harness_.Dial("c");
  EXPECT_EQ(NumPlannedFor(), 3u);
}

TEST_F(FleetAfterRestartTest, SoDoesOneThatIsSubmittedBeforeTheyHaveDialled) {
  harness_.Restart();
  harness_.Submit(SmallSpec());
  harness_.Dial("b");
  EXPECT_EQ(NumPlannedFor(), 0u);
  harness_.Dial("a");
  harness_.Connect("c", /*incarnation=*/2);  // its process was started again meanwhile
  EXPECT_EQ(NumPlannedFor(), 3u);
}

TEST_F(FleetAfterRestartTest, WhoDoesNotDialInTimeIsNotWaitedForAnyMore) {
  harness_.Submit(SmallSpec());
  harness_.Restart();
  harness_.Dial("a");
  harness_.Dial("b");
  harness_.Pass(FleetOptions().reattach_timeout - absl::Milliseconds(1));
  EXPECT_EQ(NumPlannedFor(), 0u);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(NumPlannedFor(), 2u);
  // Nor after the next restart.
  harness_.Restart();
  harness_.Dial("a");
  harness_.Dial("b");
  EXPECT_EQ(NumPlannedFor(), 2u);
}

TEST_F(FleetAfterRestartTest, NorIsWhoWasLostOrHasLeftBefore) {
  harness_.Lose("a");
  v1::WorkerMessage leaving;
  leaving.mutable_fence()->set_incarnation(1);
  leaving.mutable_fence()->set_coordinator_term(1);
  leaving.mutable_leaving()->set_reason("SIGTERM");
  harness_.Say("b", leaving);
  harness_.Restart();
  harness_.Submit(SmallSpec());
  harness_.Dial("c");
  EXPECT_EQ(NumPlannedFor(), 1u);
}

TEST_F(FleetAfterRestartTest, AFixedDegreeWaitsForNoMoreThanItNeeds) {
  harness_.Restart();
  v1::JobSpec spec = SmallSpec();
  spec.mutable_parallelism()->set_pipeline_parallel_degree(2);
  harness_.Submit(spec);
  harness_.Dial("a");
  harness_.Dial("c");
  EXPECT_EQ(NumPlannedFor(), 2u);
}

}  // namespace
}  // namespace stagecoach
