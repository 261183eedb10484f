#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Message = v1::CoordinatorMessage;

// A job of four steps on workers a, b and c.
class DecideCheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name);
    spec_.mutable_checkpoint()->set_async(true);
    spec_.mutable_training()->set_validation_interval(0);
  }
  void Start() {
    job_ = harness_.Submit(spec_);
    harness_.FinishPlanning(SmallPlan(3));
  }
  void Start(uint64_t interval_steps) {
    spec_.mutable_checkpoint()->set_interval_steps(interval_steps);
    Start();
  }
  // Workers answer; files do nothing.
  void RunWorkers() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (const char* name : {"a", "b", "c"}) {
        while (harness_.IsConnected(name) && !harness_.inbox[name].empty()) {
          harness_.Step(name);
          moved = true;
        }
      }
    }
  }
  void ReachStep(uint64_t step) {
    harness_.RunUntil([&] { return history().last_commit.step() == step; });
  }
  absl::Status Ask(const Input& request) {
    harness_.answer.reset();
    harness_.Feed(request);
    return harness_.answer->status();
  }
  const JobHistory& history() const { return harness_.job(job_).history; }
  const JobProgress& progress() const { return harness_.job(job_).progress; }
  std::vector<uint64_t> CheckpointSteps() const {
    std::vector<uint64_t> steps;
    for (const auto& checkpoint : history().checkpoints) steps.push_back(checkpoint.step());
    return steps;
  }
  // Steps whose commit asked for a snapshot.
  std::vector<uint64_t> SnapshotSteps() const {
    std::vector<uint64_t> steps;
    for (const Message& message : harness_.Sent("b", Message::kCommitStep)) {
      if (message.commit_step().snapshot()) steps.push_back(message.commit_step().record().step());
    }
    return steps;
  }
  std::vector<std::string> Order(const std::string& worker) {
    std::vector<std::string> order;
    for (const Message& message : harness_.sent[worker]) {
      if (message.has_commit_step()) order.push_back("commit" + std::to_string(message.commit_step().record().step()));
      if (message.has_run_step()) order.push_back("run" + std::to_string(message.run_step().step()));
      if (message.has_write_checkpoint()) order.push_back("write" + std::to_string(message.write_checkpoint().step()));
    }
    return order;
  }
  std::vector<std::string> Notes(const std::string& reason) const {
    std::vector<std::string> notes;
    for (const v1::EventNote& note : harness_.notes) {
      if (note.reason() == reason) notes.push_back(note.message());
    }
    return notes;
  }

  DecideHarness harness_;
  v1::JobSpec spec_ = SmallSpec();
  JobId job_;
};

TEST_F(DecideCheckpointTest, WithoutAnIntervalThereIsOneAtTheEnd) {
  Start(0);
  harness_.RunUntilQuiet();
  EXPECT_THAT(CheckpointSteps(), ElementsAre(4));
  EXPECT_THAT(SnapshotSteps(), IsEmpty());
}

TEST_F(DecideCheckpointTest, TrainingGoesOnWhileASnapshotIsWritten) {
  Start(2);
  ReachStep(2);
  EXPECT_THAT(SnapshotSteps(), ElementsAre(2));
  ASSERT_TRUE(harness_.directory.has_value());
  RunWorkers();  // the directory is still being made
  EXPECT_EQ(history().last_commit.step(), 4u);
  EXPECT_EQ(progress().phase, Phase::kFinishing);  // waits for the one in the making
  EXPECT_THAT(CheckpointSteps(), IsEmpty());
  harness_.RunUntilQuiet();
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, 4));
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideCheckpointTest, TheManifestIsThatOfTheSnapshotsStep) {
  Start(2);
  ReachStep(2);
  RunWorkers();
  harness_.FinishDirectory(std::string("/checkpoints/step-0000000002"));
  RunWorkers();
  ASSERT_TRUE(harness_.manifest.has_value());
  EXPECT_EQ(harness_.manifest->manifest.step(), 2u);
  EXPECT_EQ(harness_.manifest->manifest.num_updates(), 2u);
  EXPECT_EQ(harness_.manifest->manifest.next_sample(), 16u);
  EXPECT_EQ(harness_.manifest->manifest.last_commit().step(), 2u);
  const Message write = harness_.Sent("a", Message::kWriteCheckpoint)[0];
  EXPECT_TRUE(write.write_checkpoint().from_snapshot());
  EXPECT_EQ(write.write_checkpoint().step(), 2u);
}

TEST_F(DecideCheckpointTest, OneThatIsDueWhileAnotherIsInTheMakingFollowsIt) {
  spec_.mutable_training()->set_steps(8);
  Start(2);
  ReachStep(5);
  ASSERT_TRUE(harness_.directory.has_value());  // of step 2: step 4 was due meanwhile
  EXPECT_THAT(SnapshotSteps(), ElementsAre(2));
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  while (!harness_.manifest.has_value()) harness_.Step("a"), harness_.Step("b"), harness_.Step("c");
  harness_.FinishManifest(absl::OkStatus());
  harness_.RunUntilQuiet();
  ASSERT_EQ(SnapshotSteps().size(), 2u);
  EXPECT_GT(SnapshotSteps()[1], 4u);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, SnapshotSteps()[1], 8));
}

TEST_F(DecideCheckpointTest, WithoutSnapshotsTrainingWaits) {
  spec_.mutable_checkpoint()->set_async(false);
  Start(2);
  harness_.RunUntilQuiet();
  EXPECT_THAT(SnapshotSteps(), IsEmpty());
  EXPECT_THAT(Order("a"), ElementsAre("run1", "commit1", "run2", "commit2", "write2", "run3", "commit3", "run4",
                                      "commit4", "write4"));
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, 4));
}

TEST_F(DecideCheckpointTest, OneIsDueWhenTheTimeIsUp) {
  spec_.mutable_checkpoint()->set_interval_seconds(0.5);
  Start();
  ReachStep(1);
  EXPECT_THAT(SnapshotSteps(), IsEmpty());
  harness_.Pass(absl::Seconds(0.6));
  ReachStep(2);
  EXPECT_THAT(SnapshotSteps(), ElementsAre(2));
  harness_.RunUntilQuiet();
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, 4));
}

TEST_F(DecideCheckpointTest, AShardThatCannotBeWrittenEndsTheCheckpointAndNotTheJob) {
  Start(2);
  harness_.workers["b"]->disk = absl::ResourceExhaustedError("stage-00001: the disk is full");
  ReachStep(2);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  harness_.RunUntil([&] { return !Notes("CheckpointFailed").empty(); });
  EXPECT_THAT(Notes("CheckpointFailed"),
              ElementsAre("step 2: worker b (rank 1, stage 1): RESOURCE_EXHAUSTED: stage-00001: the disk is full"));
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
  EXPECT_EQ(history().state, v1::JOB_STATE_RUNNING);
  harness_.workers["b"]->disk = absl::OkStatus();
  harness_.RunUntilQuiet();
  EXPECT_THAT(CheckpointSteps(), ElementsAre(4));
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideCheckpointTest, ADirectoryOrManifestThatCannotBeWrittenDoesNotEndTheJobEither) {
  for (const bool async : {true, false}) {
    spec_.mutable_checkpoint()->set_async(async);
    spec_.set_name(async ? "behind" : "between");
    Start(1);
    harness_.RunUntil([&] { return harness_.directory.has_value(); });
    harness_.FinishDirectory(absl::PermissionDeniedError("/checkpoints: no"));
    harness_.RunUntil([&] { return harness_.manifest.has_value(); });
    harness_.FinishManifest(absl::UnknownError("EIO"));
    harness_.RunUntilQuiet();
    EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
    EXPECT_THAT(CheckpointSteps().back(), 4u);
  }
  EXPECT_THAT(Notes("CheckpointFailed"),
              ElementsAre("step 1: /checkpoints: no", HasSubstr("EIO"), "step 1: /checkpoints: no", HasSubstr("EIO")));
}

TEST_F(DecideCheckpointTest, WhenTheLastOneFailsTheJobFails) {
  Start(0);
  for (const char* name : {"a", "b", "c"}) harness_.workers[name]->disk = absl::UnknownError("EIO");
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history().reason, kReasonCheckpointFailed);
  EXPECT_THAT(history().message, HasSubstr("worker a (rank 0, stage 0): UNKNOWN: EIO"));
}

TEST_F(DecideCheckpointTest, OldOnesAreRemovedAfterEach) {
  spec_.mutable_checkpoint()->set_keep_last(2);
  Start(2);
  harness_.RunUntilQuiet();
  ASSERT_EQ(harness_.prunings.size(), 2u);
  EXPECT_EQ(harness_.prunings[0].parent, "/checkpoints");
  EXPECT_EQ(harness_.prunings[0].job_name, "job");
  EXPECT_EQ(harness_.prunings[0].keep_last, 2u);
}

TEST_F(DecideCheckpointTest, AClientAsksForOneWhileTrainingRuns) {
  Start(0);
  ReachStep(1);
  EXPECT_TRUE(Ask(CheckpointRequested{7, job_}).ok());
  harness_.RunUntilQuiet();
  EXPECT_THAT(CheckpointSteps(), ElementsAre(2, 4));
}

TEST_F(DecideCheckpointTest, AClientAsksForOneOfAPausedJob) {
  Start(0);
  ReachStep(2);
  ASSERT_TRUE(Ask(PauseRequested{6, job_}).ok());
  harness_.RunUntilQuiet();
  ASSERT_EQ(progress().phase, Phase::kPaused);
  EXPECT_TRUE(Ask(CheckpointRequested{7, job_}).ok());
  EXPECT_TRUE(Ask(CheckpointRequested{8, job_}).ok());
  harness_.RunUntilQuiet();
  EXPECT_EQ(progress().phase, Phase::kPaused);
  EXPECT_THAT(CheckpointSteps().front(), history().last_commit.step());
}

TEST_F(DecideCheckpointTest, APausedJobMayBeResumedWhileItsCheckpointIsWritten) {
  Start(0);
  ReachStep(2);
  ASSERT_TRUE(Ask(PauseRequested{6, job_}).ok());
  harness_.RunUntilQuiet();
  ASSERT_TRUE(Ask(CheckpointRequested{7, job_}).ok());
  ASSERT_TRUE(Ask(ResumeRequested{8, job_}).ok());
  EXPECT_EQ(history().state, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(progress().phase, Phase::kMakingDirectory);
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideCheckpointTest, AClientIsToldWhenThereIsNothingToKeep) {
  job_ = harness_.Submit(spec_);
  EXPECT_THAT(std::string(Ask(CheckpointRequested{7, job_}).message()), HasSubstr("has trained no step"));
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();
  EXPECT_THAT(std::string(Ask(CheckpointRequested{7, job_}).message()), HasSubstr("has already ended"));
  EXPECT_EQ(Ask(CheckpointRequested{7, JobId("none")}).code(), absl::StatusCode::kNotFound);
}

TEST_F(DecideCheckpointTest, AMemberThatLeavesGetsTheLastStepIntoACheckpoint) {
  Start(0);
  ReachStep(2);
  v1::WorkerMessage leaving = harness_.Fenced("b", job_);
  leaving.mutable_leaving()->set_reason("SIGTERM");
  harness_.Say("b", leaving);
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history().reason, kReasonWorkerLost);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(3));
  EXPECT_THAT(history().message, HasSubstr("checkpoint of step 3 in /checkpoints/step"));
}

TEST_F(DecideCheckpointTest, AMemberThatLeavesDoesNotWaitForACheckpointThatFails) {
  Start(0);
  for (const char* name : {"a", "b", "c"}) harness_.workers[name]->disk = absl::UnknownError("EIO");
  ReachStep(2);
  v1::WorkerMessage leaving = harness_.Fenced("b", job_);
  leaving.mutable_leaving()->set_reason("SIGTERM");
  harness_.Say("b", leaving);
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().reason, kReasonWorkerLost);
  EXPECT_THAT(CheckpointSteps(), IsEmpty());
  EXPECT_EQ(Notes("CheckpointFailed").size(), 1u);
}

TEST_F(DecideCheckpointTest, ARestartBeginsTheOneThatWasInTheMakingAgain) {
  spec_.mutable_training()->set_steps(8);
  Start(3);
  ReachStep(3);
  harness_.Restart();
  for (const char* name : {"a", "b", "c"}) harness_.Dial(name);
  harness_.FinishPlanning(SmallPlan(3));
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(CheckpointSteps(), ElementsAre(6, 8));
}

TEST_F(DecideCheckpointTest, AnEpochThatEndsTakesItsCheckpointWithIt) {
  spec_.mutable_training()->set_steps(8);
  Start(2);
  ReachStep(2);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  harness_.Break("c");
  harness_.Dial("c");
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(CheckpointSteps().back(), 8u);
  for (const uint64_t step : CheckpointSteps()) EXPECT_GT(step, 2u);
}

TEST_F(DecideCheckpointTest, ADirectoryThatNobodyWaitsForIsRemoved) {
  Start(2);
  ReachStep(2);
  ASSERT_TRUE(harness_.directory.has_value());
  harness_.Lose("c");
  EXPECT_EQ(history().state, v1::JOB_STATE_FAILED);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
}

TEST_F(DecideCheckpointTest, AnEpochThatIsEndingIsToldOfNoCheckpoint) {
  Start(2);
  ReachStep(2);
  v1::WorkerMessage failure = harness_.Fenced("a", job_);
  failure.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failure.mutable_failure()->set_message("peer is gone");
  harness_.Say("a", failure);
  ASSERT_EQ(progress().phase, Phase::kAborting);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  EXPECT_THAT(harness_.Sent("b", Message::kWriteCheckpoint), IsEmpty());
  EXPECT_THAT(harness_.removed_directories, ElementsAre("/checkpoints/2"));
}

TEST_F(DecideCheckpointTest, TwoAnswersOfAWorkerCountOnce) {
  Start(2);
  ReachStep(2);
  harness_.FinishDirectory(std::string("/checkpoints/2"));
  v1::WorkerMessage failed = harness_.Fenced("a", job_);
  failed.mutable_shard_failed()->set_step(2);
  failed.mutable_shard_failed()->set_file("stage-00000.safetensors");
  EXPECT_TRUE(harness_.Say("a", failed));
  EXPECT_FALSE(harness_.Say("a", failed));
  failed.mutable_shard_failed()->set_step(1);
  EXPECT_FALSE(harness_.Say("a", failed));
}

// ---- resuming

std::shared_ptr<const v1::JobResumed> ResumePoint(uint64_t step) {
  v1::JobResumed resumed;
  resumed.mutable_checkpoint()->set_job("earlier");
  resumed.mutable_checkpoint()->set_step(step);
  resumed.mutable_checkpoint()->set_directory("/checkpoints/step-0000000002");
  resumed.mutable_checkpoint()->set_digest("d");
  resumed.mutable_checkpoint()->set_state_digest("s");
  resumed.mutable_last_commit()->set_step(step);
  resumed.mutable_last_commit()->set_num_updates(step);
  resumed.mutable_last_commit()->set_verdict(v1::VERDICT_APPLY);
  resumed.mutable_last_commit()->set_next_loss_scale(1);
  resumed.set_manifest_digest("m");
  resumed.add_notes("training.steps: 2 -> 4");
  return std::make_shared<const v1::JobResumed>(resumed);
}

TEST_F(DecideCheckpointTest, AJobGoesOnFromACheckpoint) {
  harness_.resume_point = ResumePoint(2);
  Start(0);
  const Message assignment = harness_.Sent("a", Message::kAssignStages)[0];
  EXPECT_EQ(assignment.assign_stages().restore().directory(), "/checkpoints/step-0000000002");
  EXPECT_EQ(assignment.assign_stages().restore().manifest_digest(), "m");
  EXPECT_EQ(assignment.assign_stages().last_commit().step(), 2u);
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(Order("a"), ElementsAre("run3", "commit3", "run4", "commit4", "write4"));
  const Message run = harness_.Sent("a", Message::kRunStep)[0];
  EXPECT_EQ(run.run_step().first_sample(), 16u);
  EXPECT_EQ(harness_.Sent("a", Message::kCommitStep)[0].commit_step().record().num_updates(), 3u);
  EXPECT_THAT(Notes("JobResumed"), ElementsAre("from step 2 in /checkpoints/step-0000000002; training.steps: 2 -> 4"));
  EXPECT_EQ(DurableText(Replay(harness_.journal)), DurableText(harness_.state));
}

TEST_F(DecideCheckpointTest, AJobThatIsCompleteEndsWithTheCheckpointItHas) {
  harness_.resume_point = ResumePoint(4);
  Start(0);
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(Order("a"), IsEmpty());
  EXPECT_THAT(history().message, HasSubstr("checkpoint in /checkpoints/step-0000000002"));
}

TEST_F(DecideCheckpointTest, AResumedJobRestoresAgainUntilAStepIsCommitted) {
  harness_.resume_point = ResumePoint(2);
  Start(0);
  harness_.RunUntil([&] { return progress().phase == Phase::kTraining; });
  harness_.Restart();
  // The workers are others, which hold nothing.
  for (const char* name : {"a", "b", "c"}) harness_.Dial(name);
  harness_.FinishPlanning(SmallPlan(3));
  EXPECT_TRUE(harness_.Sent("a", Message::kAssignStages).back().assign_stages().has_restore());
  ReachStep(3);
  harness_.Restart();
  for (const char* name : {"a", "b", "c"}) harness_.Dial(name);
  harness_.FinishPlanning(SmallPlan(3));
  EXPECT_FALSE(harness_.Sent("a", Message::kAssignStages).back().assign_stages().has_restore());
  harness_.RunUntilQuiet();
  EXPECT_EQ(history().state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideCheckpointTest, AJobThatCannotBeResumedFails) {
  job_ = harness_.Submit(spec_);
  harness_.FinishPlanning(absl::DataLossError("no checkpoint verifies"), kReasonCorruptCheckpoint);
  EXPECT_EQ(history().state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history().reason, kReasonCorruptCheckpoint);
}

}  // namespace
}  // namespace stagecoach
