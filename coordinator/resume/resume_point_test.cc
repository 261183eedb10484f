#include "coordinator/resume/resume_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/status_macros.h"
#include "formats/checkpoint.h"
#include "formats/text_corpus.h"
#include "tests/testing/checkpoint/small_checkpoint.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ResumePointTest : public testing::Test {
 protected:
  ResumePointTest() {
    EXPECT_TRUE(WriteFileAtomically(files_, directory_.Path("train.txt"), "some text to train on").ok());
    spec_.set_name("gpt");
    spec_.mutable_data()->add_train()->set_path(directory_.Path("train.txt"));
    spec_.mutable_model()->set_architecture("gpt2");
    spec_.mutable_training()->set_global_batch_size(8);
    spec_.mutable_training()->set_steps(20);
    spec_.mutable_optimizer()->set_name("adamw");
    spec_.mutable_checkpoint()->set_dir(root_);
    spec_.mutable_checkpoint()->set_resume("auto");
  }
  absl::StatusOr<CorpusIdentity> TrainingData() {
    STAGECOACH_ASSIGN_OR_RETURN(const TextCorpus corpus, OpenTextCorpus(spec_.data(), /*seq_len=*/4, files_));
    return IdentifyTrainingData(corpus, files_);
  }
  std::string Write(uint64_t step) { return WriteSmallCheckpoint(files_, root_, step, spec_, *TrainingData()); }
  absl::StatusOr<std::shared_ptr<const v1::JobResumed>> Find(const std::string& resume = "auto") {
    spec_.mutable_checkpoint()->set_resume(resume);
    const absl::StatusOr<ResumePoint> found = FindResumePoint(files_, spec_, [this] { return TrainingData(); });
    if (!found.ok()) return found.status();
    micro_batch_size_ = found->micro_batch_size;
    return found->resumed;
  }
  void ExpectError(const std::string& resume, absl::StatusCode code, const std::string& part) {
    const absl::Status status = Find(resume).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  const std::string root_ = directory_.Path("checkpoints");
  uint64_t micro_batch_size_ = 0;  // of the checkpoint that Find has found
  v1::JobSpec spec_;
};

TEST_F(ResumePointTest, NothingThereMeansStepZero) {
  EXPECT_EQ(*Find(), nullptr);
  ASSERT_TRUE(MakeCheckpointDirectory(files_, root_, Step(5)).ok());
  EXPECT_EQ(*Find(), nullptr);  // that is no checkpoint
}

TEST_F(ResumePointTest, NeverMeansStepZero) {
  Write(5);
  EXPECT_EQ(*Find("never"), nullptr);
}

TEST_F(ResumePointTest, WithoutACheckpointNobodyReadsTheData) {
  spec_.mutable_checkpoint()->set_resume("auto");
  const auto found = FindResumePoint(
      files_, spec_, []() -> absl::StatusOr<CorpusIdentity> { return absl::InternalError("the data was read"); });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->resumed, nullptr);
}

TEST_F(ResumePointTest, TellsTheMicroBatchSizeOfTheCheckpoint) {
  ASSERT_TRUE(Find().ok());
  EXPECT_EQ(micro_batch_size_, 0u);
  spec_.mutable_training()->set_micro_batch_size(4);
  Write(5);
  spec_.mutable_training()->set_micro_batch_size(0);
  ASSERT_TRUE(Find().ok());
  EXPECT_EQ(micro_batch_size_, 4u);
}

TEST_F(ResumePointTest, AutoTakesTheNewest) {
  Write(5);
  const std::string newest = Write(10);
  const auto resumed = Find();
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*resumed)->checkpoint().directory(), newest);
  EXPECT_EQ((*resumed)->checkpoint().step(), 10u);
  EXPECT_EQ((*resumed)->checkpoint().digest().size(), 32u);
  EXPECT_EQ((*resumed)->last_commit().step(), 10u);
  EXPECT_EQ((*resumed)->last_commit().num_updates(), 10u);
  EXPECT_EQ((*resumed)->manifest_digest().size(), 32u);
  EXPECT_TRUE((*resumed)->notes().empty());
}

TEST_F(ResumePointTest, AStaleOrMissingLatestDoesNotMatter) {
  const std::string older = Write(5);
  const std::string newest = Write(10);
  for (const char* latest : {"step-0000000005\n", "step-0000000099\n", "nonsense"}) {
    ASSERT_TRUE(WriteFileAtomically(files_, root_ + "/latest", latest).ok());
    EXPECT_EQ((*Find())->checkpoint().directory(), newest) << latest;
  }
}

TEST_F(ResumePointTest, AutoPassesOverWhatIsDamagedAndSaysSo) {
  const std::string good = Write(5);
  const std::string flipped = Write(10);
  FlipLastBit(flipped + "/stage-00000.safetensors");
  const std::string missing = Write(15);
  ASSERT_TRUE(files_.RemoveTree(missing + "/stage-00000.safetensors").ok());
  const auto resumed = Find();
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*resumed)->checkpoint().directory(), good);
  EXPECT_THAT((*resumed)->notes(), ElementsAre(HasSubstr("step-0000000015"), HasSubstr("step-0000000010")));
}

TEST_F(ResumePointTest, AutoDoesNotBeginAgainWhenAllAreDamaged) {
  const std::string only = Write(5);
  FlipLastBit(only + "/stage-00000.safetensors");
  ExpectError("auto", absl::StatusCode::kDataLoss, "no checkpoint in " + root_ + " verifies: passed over: ");
}

TEST_F(ResumePointTest, ANamedOneIsTakenOrNone) {
  const std::string older = Write(5);
  const std::string newest = Write(10);
  EXPECT_EQ((*Find("step-0000000005"))->checkpoint().directory(), older);
  ExpectError("step-0000000007", absl::StatusCode::kNotFound, "there is no checkpoint " + root_ + "/step-0000000007");
  FlipLastBit(older + "/stage-00000.safetensors");
  ExpectError("step-0000000005", absl::StatusCode::kDataLoss, older);
}

TEST_F(ResumePointTest, AnotherModelIsRefused) {
  Write(5);
  spec_.mutable_model()->mutable_config()->set_hidden_size(7);
  ExpectError("auto", absl::StatusCode::kFailedPrecondition, "model.config.hidden_size: 0 -> 7");
}

TEST_F(ResumePointTest, MoreStepsAreNoted) {
  Write(5);
  spec_.mutable_training()->set_steps(40);
  EXPECT_THAT((*Find())->notes(), ElementsAre("training.steps: 20 -> 40"));
}

TEST_F(ResumePointTest, OtherTrainingDataIsRefused) {
  Write(5);
  ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path("train.txt"), "other text to train on").ok());
  ExpectError("auto", absl::StatusCode::kFailedPrecondition, "with other training data: it had 21 bytes of digest");
}

TEST_F(ResumePointTest, TheSameTrainingDataElsewhereIsNot) {
  Write(5);
  ASSERT_TRUE(files_.Rename(directory_.Path("train.txt"), directory_.Path("moved.txt")).ok());
  spec_.mutable_data()->mutable_train(0)->set_path(directory_.Path("moved.txt"));
  ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path("validation.txt"), "to validate on").ok());
  spec_.mutable_data()->add_validation()->set_path(directory_.Path("validation.txt"));
  EXPECT_EQ((*Find())->checkpoint().step(), 5u);
}

TEST_F(ResumePointTest, AnErrorOfTheDiskIsNotTakenForDamage) {
  Write(5);
  Write(10);
  files_.Add({FileOperation::kRead, "step-0000000010", 0, absl::UnknownError("EIO")});
  ExpectError("auto", absl::StatusCode::kUnknown, "EIO");
  ExpectError("step-0000000010", absl::StatusCode::kUnknown, "EIO");
}

TEST_F(ResumePointTest, NeitherIsAFileInThePlaceOfTheDirectory) {
  spec_.mutable_checkpoint()->set_dir(directory_.Path("train.txt"));
  ExpectError("auto", absl::StatusCode::kUnknown, "the checkpoints cannot be read: ");
}

}  // namespace
}  // namespace stagecoach
