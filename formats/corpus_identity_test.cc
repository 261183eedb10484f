#include "formats/corpus_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class CorpusIdentityTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path(name), text).ok());
  }
  TextCorpus Open(const std::string& pattern = "*") {
    v1::DataSpec data;
    data.add_train()->set_path(directory_.Path(pattern));
    const absl::StatusOr<TextCorpus> corpus = OpenTextCorpus(data, 4, files_);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return *corpus;
  }
  CorpusIdentity Identity(uint64_t max_bytes = kMaxIdentityBytes) {
    const absl::StatusOr<CorpusIdentities> identities = IdentifyCorpus(Open(), files_, max_bytes);
    EXPECT_TRUE(identities.ok()) << identities.status();
    return identities->all;
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
};

TEST_F(CorpusIdentityTest, IsOfContentsAndTheirOrder) {
  Write("a", "the stage coach");
  Write("b", "rolls over the hills");
  const CorpusIdentity before = Identity();
  EXPECT_EQ(before.bytes, 35u);
  EXPECT_EQ(before.digest.size(), 32u);
  EXPECT_EQ(Identity(), before);
  Write("b", "rolls over the hillS");
  EXPECT_NE(Identity(), before);
  Write("a", "rolls over the hills");
  Write("b", "the stage coach");
  EXPECT_NE(Identity(), before);
  // The same bytes, cut into files otherwise.
  Write("a", "the stage coachr");
  Write("b", "olls over the hills");
  EXPECT_EQ(Identity().bytes, before.bytes);
  EXPECT_NE(Identity(), before);
}

TEST_F(CorpusIdentityTest, IsNotOfNamesOrTimes) {
  Write("a", "the stage coach");
  const CorpusIdentity before = Identity();
  std::filesystem::rename(directory_.Path("a"), directory_.Path("z"));
  std::filesystem::last_write_time(directory_.Path("z"), std::filesystem::file_time_type());
  EXPECT_EQ(Identity(), before);
}

TEST_F(CorpusIdentityTest, ValidationIsNotTraining) {
  Write("a", "the stage coach");
  Write("b", "rolls over the hills");
  TextCorpus corpus = Open();
  const CorpusIdentity together = IdentifyCorpus(corpus, files_)->all;
  corpus.validation.push_back(corpus.train.back());
  corpus.train.pop_back();
  EXPECT_NE(IdentifyCorpus(corpus, files_)->all, together);
}

TEST_F(CorpusIdentityTest, ThatOfTheTrainingDataIsTheSameWhateverValidates) {
  constexpr size_t kBlock = 64 << 10;
  Write("a", std::string(16 * kBlock, 'x'));
  Write("b", "the stage coach");
  Write("c", std::string(8 * kBlock, 'y'));
  const TextCorpus alone = Open("[ab]");
  TextCorpus corpus = alone;
  corpus.validation = Open("c").train;
  // All of it counts, or the blocks of the two identities differ.
  for (const uint64_t max_bytes : {kMaxIdentityBytes, uint64_t{4 * kBlock}}) {
    const absl::StatusOr<CorpusIdentities> without = IdentifyCorpus(alone, files_, max_bytes);
    const absl::StatusOr<CorpusIdentities> with = IdentifyCorpus(corpus, files_, max_bytes);
    EXPECT_EQ(without->training, without->all) << max_bytes;
    EXPECT_EQ(with->training, without->training) << max_bytes;
    EXPECT_NE(with->all, with->training) << max_bytes;
  }
  EXPECT_EQ(*IdentifyTrainingData(corpus, files_), IdentifyCorpus(alone, files_)->all);
}

// They are in journals and checkpoints.
TEST_F(CorpusIdentityTest, IsWhatItHasAlwaysBeen) {
  Write("a", "the stage coach");
  TextCorpus corpus = Open("a");
  Write("b", "rolls over the hills");
  corpus.validation = Open("b").train;
  const absl::StatusOr<CorpusIdentities> identities = IdentifyCorpus(corpus, files_);
  EXPECT_EQ(identities->all.digest, "d040fde80ce2da880344a64df9c0df8c");
  EXPECT_EQ(identities->training.digest, "e511fcf660c8011946dd1737a781773f");
}

TEST_F(CorpusIdentityTest, NothingIsReadTwice) {
  Write("a", "the stage coach");
  Write("b", "rolls over the hills");
  TextCorpus corpus = Open("a");
  corpus.validation = Open("b").train;
  int reads = 0;
  files_.on_read = [&] { ++reads; };
  ASSERT_TRUE(IdentifyCorpus(corpus, files_).ok());
  EXPECT_EQ(reads, 2);
  ASSERT_TRUE(IdentifyTrainingData(corpus, files_).ok());
  EXPECT_EQ(reads, 3);
}

// 16 blocks, of which some are read.
TEST_F(CorpusIdentityTest, OfALargeCorpusBlocksAreReadThatAreSpreadEvenly) {
  constexpr size_t kBlock = 64 << 10;
  const std::string text(16 * kBlock, 'x');
  Write("a", text);
  const CorpusIdentity before = Identity(4 * kBlock);
  EXPECT_EQ(before.bytes, text.size());
  const auto is_noticed = [&](size_t block) {
    std::string changed = text;
    changed[block * kBlock + 5] = 'y';
    Write("a", changed);
    return Identity(4 * kBlock) != before;
  };
  EXPECT_TRUE(is_noticed(0));
  EXPECT_TRUE(is_noticed(5));
  EXPECT_TRUE(is_noticed(10));
  EXPECT_TRUE(is_noticed(15));
  EXPECT_FALSE(is_noticed(1));  // what it costs
  Write("a", text + "x");
  EXPECT_NE(Identity(4 * kBlock), before);
}

TEST_F(CorpusIdentityTest, EveryFileHasItsShareAndSmallOnesABlock) {
  constexpr size_t kBlock = 64 << 10;
  Write("large", std::string(32 * kBlock, 'x'));
  Write("small", "the stage coach");
  const CorpusIdentity before = Identity(2 * kBlock);
  Write("small", "the Stage coach");
  EXPECT_NE(Identity(2 * kBlock), before);
}

TEST_F(CorpusIdentityTest, RefusesWhatCannotBeReadOrHasChangedMeanwhile) {
  Write("a", "the stage coach");
  const TextCorpus corpus = Open();
  Write("a", "the stage");
  absl::Status status = IdentifyCorpus(corpus, files_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/a has 9 bytes, and had 15 a moment ago"));
  std::filesystem::remove(directory_.Path("a"));
  status = IdentifyCorpus(corpus, files_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/a"));
}

}  // namespace
}  // namespace stagecoach
