#ifndef STAGECOACH_COORDINATOR_TESTING_RECOVERY_TEST_H_
#define STAGECOACH_COORDINATOR_TESTING_RECOVERY_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {

inline constexpr const char* kWorkers[] = {"a", "b", "c"};

// A job of four steps on three workers, with validation after steps 2 and 4, and what an undisturbed run of it gives.
class RecoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    Begin(undisturbed_);
    undisturbed_.RunUntilQuiet();
    expected_ = undisturbed_.job(JobId("job")).history.checkpoints.at(0);
    Begin(harness_);
  }
  static void Begin(DecideHarness& harness, std::shared_ptr<const JobPlan> plan = SmallPlan(3, 4)) {
    for (const char* name : kWorkers) harness.Connect(name);
    v1::JobSpec spec = SmallSpec();
    spec.mutable_resources()->set_workers(3);
    harness.Submit(spec);
    harness.FinishPlanning(std::move(plan));
  }
  const JobRecord& record() const { return harness_.job(job_); }
  v1::JobState state() const { return record().history.state; }
  Phase phase() const { return record().progress.phase; }
  uint64_t step() const { return record().history.last_commit.step(); }
  void ReachPhase(Phase wanted) {
    harness_.RunUntil([&] { return phase() == wanted; });
    ASSERT_EQ(phase(), wanted);
  }
  void ReachStep(uint64_t wanted) {
    harness_.RunUntil([&] { return step() == wanted && phase() == Phase::kTraining; });
    ASSERT_EQ(step(), wanted);
  }
  void DialAll() {
    for (const char* name : kWorkers) harness_.Dial(name);
  }
  // To the end, which is that of an undisturbed run.
  void ExpectTheSameEnd() {
    if (harness_.planning.has_value()) harness_.FinishPlanning(SmallPlan(3, 4));
    harness_.RunUntilQuiet();
    ASSERT_EQ(state(), v1::JOB_STATE_SUCCEEDED) << record().history.message;
    const v1::CheckpointCompleted& checkpoint = record().history.checkpoints.back();
    EXPECT_EQ(checkpoint.digest(), expected_.digest());
    EXPECT_EQ(checkpoint.state_digest(), expected_.state_digest());
    ASSERT_EQ(harness_.events.size(), 4u);
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(harness_.events[i].step(), i + 1);
      EXPECT_EQ(harness_.events[i].loss(), undisturbed_.events[i].loss());
    }
    EXPECT_EQ(harness_.validation_losses, undisturbed_.validation_losses);
    for (const char* name : kWorkers) EXPECT_FALSE(harness_.worker(name).job.has_value());
  }

  DecideHarness undisturbed_;
  v1::CheckpointCompleted expected_;
  DecideHarness harness_;
  const JobId job_{"job"};
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TESTING_RECOVERY_TEST_H_
