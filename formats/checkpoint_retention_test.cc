#include "formats/checkpoint_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/checkpoint.h"
#include "tests/testing/checkpoint/small_checkpoint.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointRetentionTest : public testing::Test {
 protected:
  std::string Write(uint64_t step, const std::string& name = "gpt") {
    v1::JobSpec spec;
    spec.set_name(name);
    return WriteSmallCheckpoint(files_, root_, step, spec);
  }
  std::vector<std::string> Prune(uint32_t keep_last) {
    const auto removed = retention_.Prune(root_, "gpt", keep_last);
    EXPECT_TRUE(removed.ok()) << removed.status();
    return removed.ok() ? *removed : std::vector<std::string>{};
  }
  bool IsThere(const std::string& checkpoint) { return files_.List(checkpoint).ok(); }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  CheckpointRetention retention_{files_};
  const std::string root_ = directory_.Path("checkpoints");
};

TEST_F(CheckpointRetentionTest, KeepsTheNewest) {
  const std::string first = Write(10), second = Write(20), third = Write(20), fourth = Write(30);
  EXPECT_THAT(Prune(2), ElementsAre(second, first));
  EXPECT_TRUE(IsThere(third) && IsThere(fourth));
  EXPECT_FALSE(IsThere(first) || IsThere(second));
  EXPECT_EQ(*FindCheckpoint(files_, root_), fourth);
}

TEST_F(CheckpointRetentionTest, FewerThanThatStay) {
  Write(10);
  Write(20);
  EXPECT_THAT(Prune(2), IsEmpty());
  EXPECT_THAT(Prune(3), IsEmpty());
}

TEST_F(CheckpointRetentionTest, OnesThatDoNotVerifyDoNotCountAndStayWhileTheyAreNew) {
  const std::string first = Write(10), second = Write(20), third = Write(30), damaged = Write(40);
  FlipLastBit(damaged + "/stage-00000.safetensors");
  EXPECT_THAT(Prune(2), ElementsAre(first));
  EXPECT_TRUE(IsThere(damaged) && IsThere(third) && IsThere(second));
}

TEST_F(CheckpointRetentionTest, ADamagedOneThatIsOldGoes) {
  const std::string damaged = Write(10);
  FlipLastBit(damaged + "/stage-00000.safetensors");
  Write(20);
  EXPECT_THAT(Prune(1), ElementsAre(damaged));
}

TEST_F(CheckpointRetentionTest, WhatOthersHaveWrittenOrAreWritingStays) {
  const std::string other = Write(10, "llama");
  const auto in_the_making = MakeCheckpointDirectory(files_, root_, Step(15));
  ASSERT_TRUE(in_the_making.ok());
  Write(20);
  EXPECT_THAT(Prune(1), IsEmpty());
  EXPECT_TRUE(IsThere(other) && IsThere(*in_the_making));
}

TEST_F(CheckpointRetentionTest, ReadsEachOnce) {
  Write(10);
  Write(20);
  Prune(2);
  Write(30);
  files_.Add({FileOperation::kOpen, "stage-", 0, absl::UnknownError("read again")});
  // The one that is new cannot be read, so it does not count; those that were read before do.
  EXPECT_THAT(Prune(2), IsEmpty());
}

TEST_F(CheckpointRetentionTest, TheManifestGoesFirst) {
  const std::string first = Write(10);
  Write(20);
  files_.Add({FileOperation::kRemove, "step-0000000010", 1, absl::UnknownError("EIO")});
  EXPECT_EQ(retention_.Prune(root_, "gpt", 1).status().code(), absl::StatusCode::kUnknown);
  const auto left = ListCheckpoints(files_, root_);
  ASSERT_TRUE(left.ok());
  ASSERT_EQ(left->size(), 2u);
  EXPECT_EQ((*left)[1].path, first);
  EXPECT_FALSE((*left)[1].is_complete);
}

TEST_F(CheckpointRetentionTest, ADirectoryThatIsNotThereIsAnError) {
  EXPECT_EQ(retention_.Prune(root_, "gpt", 1).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stagecoach
