#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

// Jobs of two workers that leave the micro-batch size to the planner.
class DecideMicroBatchTest : public testing::Test {
 protected:
  DecideMicroBatchTest() {
    spec_.mutable_training()->set_micro_batch_size(0);
    spec_.mutable_parallelism()->set_pipeline_parallel_degree(2);
    for (const char* name : {"a", "b"}) harness_.Connect(name);
    job_ = harness_.Submit(spec_);
  }
  uint64_t Size() const { return harness_.job(job_).history.spec->training().micro_batch_size(); }
  // Eight samples in micro-batches of this size.
  static std::shared_ptr<JobPlan> PlanOfSize(uint64_t size) {
    auto plan = SmallPlan(2);
    plan->planned.graph.set_micro_batch_size(size);
    return plan;
  }
  const v1::AssignStages& NewestAssignment(const std::string& worker) {
    assignment_ = harness_.Sent(worker, v1::CoordinatorMessage::kAssignStages).back().assign_stages();
    return assignment_;
  }

  DecideHarness harness_;
  v1::JobSpec spec_ = SmallSpec();
  JobId job_;
  v1::AssignStages assignment_;
};

TEST_F(DecideMicroBatchTest, TheFirstPlanFixesIt) {
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->spec.training().micro_batch_size(), 0u);
  harness_.FinishPlanning(PlanOfSize(2));
  EXPECT_EQ(Size(), 2u);
  for (const char* name : {"a", "b"}) EXPECT_EQ(NewestAssignment(name).spec().training().micro_batch_size(), 2u);
  EXPECT_EQ(harness_.journal.back().epoch_started().micro_batch_size(), 2u);
  EXPECT_THAT(harness_.job(job_).history.message, HasSubstr("in micro-batches of 2 sample(s), chosen by FLOPs"));
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(DurableText(Replay(harness_.journal)), DurableText(harness_.state));
}

TEST_F(DecideMicroBatchTest, ARestartKeepsIt) {
  harness_.FinishPlanning(PlanOfSize(2));
  harness_.RunUntil([&] { return harness_.job(job_).history.last_commit.step() == 2; });
  harness_.Restart();
  for (const char* name : {"a", "b"}) harness_.Dial(name);
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->spec.training().micro_batch_size(), 2u);
  harness_.FinishPlanning(PlanOfSize(2));
  EXPECT_EQ(Size(), 2u);
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideMicroBatchTest, AGangThatTrainedNoStepDoesNotFixIt) {
  harness_.FinishPlanning(PlanOfSize(2));
  EXPECT_EQ(Size(), 2u);
  harness_.Restart();  // before training began: it is queued again
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Size(), 0u);
}

TEST_F(DecideMicroBatchTest, APlanWithoutOneIsAnError) {
  harness_.FinishPlanning(PlanOfSize(0));
  EXPECT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness_.job(job_).history.reason, kReasonPlanningFailed);
}

TEST_F(DecideMicroBatchTest, ItsCheckpointHasIt) {
  harness_.FinishPlanning(PlanOfSize(2));
  harness_.RunUntil([&] { return harness_.manifest.has_value(); });
  ASSERT_TRUE(harness_.manifest.has_value());
  EXPECT_EQ(harness_.manifest->manifest.spec().training().micro_batch_size(), 2u);
}

}  // namespace
}  // namespace stagecoach
