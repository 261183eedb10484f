#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "coordinator/jobs/checkpoint_times.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using Message = v1::CoordinatorMessage;

constexpr absl::Duration kTimeout = FleetOptions().checkpoint_timeout;

// A job of 20 steps on workers a, b and c, which writes checkpoints behind training after every second step. Files do
// nothing by themselves, and b's disk hangs.
class DecideLateCheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name);
    v1::JobSpec spec = SmallSpec();
    spec.mutable_checkpoint()->set_async(true);
    spec.mutable_checkpoint()->set_interval_steps(2);
    spec.mutable_training()->set_validation_interval(0);
    spec.mutable_training()->set_steps(20);
    job_ = harness_.Submit(spec);
    const std::shared_ptr<JobPlan> plan = SmallPlan(3);
    plan->planned.plan.set_step_seconds(3600);  // so that nobody hangs meanwhile
    harness_.FinishPlanning(plan);
    harness_.workers["b"]->disk_hangs = true;
  }
  // Every worker answers one message.
  void StepAll() {
    for (const char* name : {"a", "b", "c"}) harness_.Step(name);
  }
  void ReachStep(uint64_t step) {
    for (int i = 0; i < 1000 && history().last_commit.step() < step; ++i) StepAll();
    ASSERT_EQ(history().last_commit.step(), step);
  }
  // Until the shards of the first checkpoint, of step 2, are ordered, and all but b's written.
  void BeginFirst() {
    ReachStep(2);
    ASSERT_TRUE(harness_.directory.has_value());
    harness_.FinishDirectory(std::string("/checkpoints/2"));
    ReachStep(4);
  }
  // The disk lets go: what was written late is told.
  void LetGo() {
    FakeWorker& worker = *harness_.workers["b"];
    worker.disk_hangs = false;
    ASSERT_TRUE(worker.late_shard.has_value());
    EXPECT_TRUE(harness_.Say("b", *std::exchange(worker.late_shard, std::nullopt)));
  }
  const JobHistory& history() const { return harness_.job(job_).history; }
  const JobProgress& progress() const { return harness_.job(job_).progress; }
  std::vector<uint64_t> CheckpointSteps() const {
    std::vector<uint64_t> steps;
    for (const auto& checkpoint : history().checkpoints) steps.push_back(checkpoint.step());
    return steps;
  }
  // Of the orders for shards that a worker was given.
  std::vector<uint64_t> OrderedSteps(const std::string& worker) const {
    std::vector<uint64_t> steps;
    for (const Message& message : harness_.Sent(worker, Message::kWriteCheckpoint)) {
      steps.push_back(message.write_checkpoint().step());
    }
    return steps;
  }
  std::vector<std::string> Failures() const {
    std::vector<std::string> failures;
    for (const v1::EventNote& note : harness_.notes) {
      if (note.reason() == "CheckpointFailed") failures.push_back(note.message());
    }
    return failures;
  }

  DecideHarness harness_;
  JobId job_;
};

TEST_F(DecideLateCheckpointTest, AShardThatDoesNotComeEndsTheCheckpointAndNotTheTraining) {
  BeginFirst();
  harness_.Pass(kTimeout - absl::Seconds(1));
  EXPECT_THAT(Failures(), IsEmpty());
  harness_.Pass(absl::Seconds(1));
  EXPECT_THAT(Failures(),
              ElementsAre("step 2: it is not complete after 10m: worker b (rank 1, stage 1) has not written "
                          "its shard"));
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
  EXPECT_EQ(history().state, v1::JOB_STATE_RUNNING);
  ReachStep(6);
  EXPECT_THAT(CheckpointSteps(), IsEmpty());
}

TEST_F(DecideLateCheckpointTest, TheNextOneIsWrittenWhenTheDiskHasLetGo) {
  BeginFirst();
  harness_.Pass(kTimeout);
  LetGo();
  EXPECT_THAT(CheckpointSteps(), IsEmpty());
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Failures().size(), 1u);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(5, 20));  // step 4 was due meanwhile
}

TEST_F(DecideLateCheckpointTest, ALateMemberGetsNoOtherOrderBeforeItHasAnswered) {
  BeginFirst();
  harness_.Pass(kTimeout);
  ReachStep(5);
  harness_.FinishDirectory(std::string("/checkpoints/5"));
  EXPECT_THAT(OrderedSteps("a"), ElementsAre(2, 5));
  EXPECT_THAT(OrderedSteps("b"), ElementsAre(2));
  LetGo();
  EXPECT_THAT(OrderedSteps("b"), ElementsAre(2, 5));
}

TEST_F(DecideLateCheckpointTest, ADiskThatHangsForLongFailsOneAfterAnother) {
  BeginFirst();
  harness_.Pass(kTimeout);
  ReachStep(5);
  harness_.FinishDirectory(std::string("/checkpoints/5"));
  ReachStep(7);
  harness_.Pass(kTimeout);
  ASSERT_EQ(Failures().size(), 2u);
  EXPECT_EQ(Failures()[1],
            "step 5: it is not complete after 10m: worker b (rank 1, stage 1) is still writing its shard of step 2");
  LetGo();  // the answer is that of step 2
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(CheckpointSteps(), Contains(20));
}

// An answer names its step, and there is another attempt of that step.
TEST_F(DecideLateCheckpointTest, ALateShardIsNotTakenForThatOfAnotherAttempt) {
  ReachStep(1);
  harness_.Feed(PauseRequested{6, job_});
  for (int i = 0; i < 1000 && progress().phase != Phase::kPaused; ++i) StepAll();
  ASSERT_EQ(history().last_commit.step(), 2u);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  for (int i = 0; i < 3; ++i) StepAll();
  harness_.Pass(kTimeout);
  ASSERT_EQ(Failures().size(), 1u);
  harness_.Feed(CheckpointRequested{7, job_});
  harness_.FinishDirectory(std::string("/checkpoints/2.2"));
  for (int i = 0; i < 3; ++i) StepAll();
  EXPECT_THAT(OrderedSteps("a"), ElementsAre(2, 2));
  EXPECT_THAT(OrderedSteps("b"), ElementsAre(2));
  LetGo();
  EXPECT_FALSE(harness_.manifest.has_value());
  EXPECT_THAT(OrderedSteps("b"), ElementsAre(2, 2));
  harness_.Step("b");
  ASSERT_TRUE(harness_.manifest.has_value());
  EXPECT_EQ(harness_.manifest->directory, "/checkpoints/2.2");
  harness_.FinishManifest(absl::OkStatus());
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2));
}

TEST_F(DecideLateCheckpointTest, ADirectoryThatIsNotMadeIsLateTooAndIsRemovedWhenItIs) {
  ReachStep(4);
  harness_.Pass(kTimeout);
  EXPECT_THAT(Failures(), ElementsAre("step 2: it is not complete after 10m: its directory has not been made"));
  EXPECT_THAT(harness_.removed_directories, IsEmpty());
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
  EXPECT_THAT(OrderedSteps("a"), IsEmpty());
}

TEST_F(DecideLateCheckpointTest, AManifestThatIsNotWrittenIsAbandonedAndItsDirectoryStays) {
  harness_.workers["b"]->disk_hangs = false;
  BeginFirst();
  ASSERT_TRUE(harness_.manifest.has_value());
  harness_.Pass(kTimeout);
  EXPECT_THAT(Failures(), ElementsAre("step 2: it is not complete after 10m: its manifest has not been written"));
  ASSERT_EQ(harness_.abandoned.size(), 1u);
  EXPECT_EQ(harness_.abandoned[0].attempt, harness_.manifest->attempt);
  EXPECT_THAT(harness_.removed_directories, IsEmpty());  // it may be a checkpoint by now
  EXPECT_FALSE(harness_.FinishManifest(absl::OkStatus()));
  EXPECT_THAT(CheckpointSteps(), IsEmpty());
}

TEST_F(DecideLateCheckpointTest, TrainingThatWaitsForItsLastCheckpointOutlivesALateOne) {
  BeginFirst();
  ReachStep(20);
  for (int i = 0; i < 3; ++i) StepAll();
  ASSERT_EQ(progress().phase, Phase::kFinishing);
  harness_.Pass(kTimeout);
  EXPECT_EQ(Failures().size(), 1u);
  harness_.FinishDirectory(std::string("/checkpoints/20"));
  LetGo();
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(20));
}

TEST(CheckpointTimeoutTest, ALargeCheckpointHasAsLongAsItsBytesTake) {
  JobPlan plan = *SmallPlan(2);
  FleetOptions options;
  EXPECT_EQ(CheckpointTimeout(plan, options), absl::Minutes(10));
  for (v1::StagePlan& stage : *plan.planned.plan.mutable_stages()) {
    stage.mutable_memory_bytes()->set_snapshot(uint64_t{400} * 1'000'000'000);
  }
  EXPECT_EQ(CheckpointTimeout(plan, options), absl::Seconds(8000));
  options.checkpoint_timeout = absl::Hours(3);
  EXPECT_EQ(CheckpointTimeout(plan, options), absl::Hours(3));
}

}  // namespace
}  // namespace stagecoach
