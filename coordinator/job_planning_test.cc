#include "coordinator/job_planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/jobs/job_state.h"
#include "formats/corpus_identity.h"
#include "formats/text_corpus.h"
#include "tests/testing/checkpoint/small_checkpoint.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class JobPlanningTest : public testing::Test {
 protected:
  JobPlanningTest() {
    EXPECT_TRUE(WriteFileAtomically(files_, text_, "some text to train on").ok());
    spec_.set_name("gpt");
    spec_.mutable_data()->add_train()->set_path(text_);
    spec_.mutable_model()->set_architecture("gpt2");
    spec_.mutable_training()->set_seq_len(4);
    spec_.mutable_training()->set_steps(20);
    spec_.mutable_optimizer()->set_name("adamw");
    spec_.mutable_checkpoint()->set_dir(root_);
    spec_.mutable_checkpoint()->set_resume("auto");
  }
  std::string WriteCheckpoint(uint64_t step) {
    const auto corpus = OpenTextCorpus(spec_.data(), spec_.training().seq_len(), files_);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return WriteSmallCheckpoint(files_, root_, step, spec_, *IdentifyTrainingData(*corpus, files_));
  }
  PlanReady Plan() {
    const auto planner = [this](const v1::JobSpec& spec, const std::vector<WorkerProfile>&) {
      planned_size_ = spec.training().micro_batch_size();
      return planned_;
    };
    return PlanJobOfSpec({.job = JobId("gpt"), .attempt = 3, .spec = spec_, .workers = {}, .same_cut_as = nullptr},
                         planner, files_);
  }
  void ExpectFailure(const std::string& reason, const std::string& part) {
    const PlanReady ready = Plan();
    EXPECT_FALSE(ready.plan.ok());
    EXPECT_EQ(ready.failure_reason, reason) << ready.plan.status();
    EXPECT_THAT(std::string(ready.plan.status().message()), HasSubstr(part));
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  const std::string text_ = directory_.Path("train.txt");
  const std::string root_ = directory_.Path("checkpoints");
  absl::StatusOr<PlannedJob> planned_ = PlannedJob();
  uint64_t planned_size_ = 0;  // of micro-batches, as the planner was told
  v1::JobSpec spec_;
};

TEST_F(JobPlanningTest, AJobWithoutAMicroBatchSizeKeepsThatOfItsCheckpoint) {
  EXPECT_TRUE(Plan().plan.ok());
  EXPECT_EQ(planned_size_, 0u);  // the planner's to choose
  spec_.mutable_training()->set_micro_batch_size(4);
  WriteCheckpoint(5);
  spec_.mutable_training()->set_micro_batch_size(0);
  const PlanReady ready = Plan();
  ASSERT_NE(ready.resumed, nullptr);
  EXPECT_TRUE(ready.resumed->notes().empty());
  EXPECT_EQ(planned_size_, 4u);
  spec_.mutable_training()->set_micro_batch_size(2);  // who names one gets it
  EXPECT_EQ(Plan().resumed->notes_size(), 1);
  EXPECT_EQ(planned_size_, 2u);
}

TEST_F(JobPlanningTest, AnswersTheOrderWithPlanDataAndResumePoint) {
  const std::string checkpoint = WriteCheckpoint(5);
  const PlanReady ready = Plan();
  ASSERT_TRUE(ready.plan.ok()) << ready.plan.status();
  EXPECT_EQ(ready.job, JobId("gpt"));
  EXPECT_EQ(ready.attempt, 3u);
  ASSERT_NE(ready.resumed, nullptr);
  EXPECT_EQ(ready.resumed->checkpoint().directory(), checkpoint);
  EXPECT_EQ((*ready.plan)->data.bytes, 21u);
  EXPECT_EQ((*ready.plan)->num_train_samples, 5u);
}

TEST_F(JobPlanningTest, AnErrorOfTheDiskIsNoCorruptCheckpoint) {
  WriteCheckpoint(5);
  WriteCheckpoint(10);
  files_.Add({FileOperation::kRead, "step-0000000010/stage", 0, absl::UnknownError("read: Input/output error")});
  ExpectFailure("CheckpointUnreadable", "Input/output error");
}

TEST_F(JobPlanningTest, NeitherIsADirectoryThatMayNotBeListedOrIsNone) {
  WriteCheckpoint(5);
  files_.Add({FileOperation::kList, root_, 0, absl::PermissionDeniedError("list: Permission denied")});
  ExpectFailure("CheckpointUnreadable", "Permission denied");
  spec_.mutable_checkpoint()->set_dir(text_);
  ExpectFailure("CheckpointUnreadable", text_);
}

TEST_F(JobPlanningTest, NeitherIsOneThatWasNamed) {
  WriteCheckpoint(5);
  spec_.mutable_checkpoint()->set_resume("step-0000000005");
  files_.Add({FileOperation::kOpen, "manifest.json", 0, absl::ResourceExhaustedError("open: No space left on device")});
  ExpectFailure("CheckpointUnreadable", "No space left on device");
}

TEST_F(JobPlanningTest, DamageIsACorruptCheckpoint) {
  FlipLastBit(WriteCheckpoint(5) + "/stage-00000.safetensors");
  ExpectFailure("CorruptCheckpoint", "no checkpoint in");
}

TEST_F(JobPlanningTest, WhatIsNotThereOrOfAnotherJobHasReasonsOfItsOwn) {
  WriteCheckpoint(5);
  spec_.mutable_checkpoint()->set_resume("step-0000000007");
  ExpectFailure("CheckpointNotFound", "step-0000000007");
  spec_.mutable_checkpoint()->set_resume("auto");
  spec_.mutable_model()->mutable_config()->set_hidden_size(7);
  ExpectFailure("SpecChanged", "model.config.hidden_size");
}

TEST_F(JobPlanningTest, DataThatCannotBeReadIsInvalid) {
  WriteCheckpoint(5);
  // Behind the byte that is read to see whether the file can be.
  files_.Add({FileOperation::kRead, "train.txt", 1, absl::UnknownError("read: Input/output error")});
  ExpectFailure("InvalidData", "Input/output error");
  spec_.mutable_data()->mutable_train(0)->set_path(directory_.Path("nowhere.txt"));
  ExpectFailure("InvalidData", "nowhere.txt");
}

TEST_F(JobPlanningTest, TheDataIsReadOnce) {
  WriteCheckpoint(5);
  // A byte was read to see that the file can be.
  files_.Add({FileOperation::kRead, "train.txt", 2, absl::UnknownError("it was read before")});
  const PlanReady ready = Plan();
  ASSERT_TRUE(ready.plan.ok()) << ready.plan.status();
  EXPECT_NE(ready.resumed, nullptr);
  EXPECT_EQ((*ready.plan)->data, (*ready.plan)->training_data);
}

TEST_F(JobPlanningTest, NoCutIsAFailureOfPlanning) {
  planned_ = absl::InvalidArgumentError("more stages than blocks");
  ExpectFailure("PlanningFailed", "more stages than blocks");
}

}  // namespace
}  // namespace stagecoach
