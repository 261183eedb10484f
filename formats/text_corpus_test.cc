#include "formats/text_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextCorpusTest : public testing::Test {
 protected:
  void Write(const std::string& name, size_t bytes) {
    ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path(name), std::string(bytes, 'x')).ok());
  }
  void Train(const std::string& pattern) { data_.add_train()->set_path(directory_.Path(pattern)); }
  void Validate(const std::string& pattern) { data_.add_validation()->set_path(directory_.Path(pattern)); }
  absl::StatusOr<TextCorpus> Open(uint64_t seq_len = 10) { return OpenTextCorpus(data_, seq_len, files_); }
  void ExpectInvalid(const std::string& part, const std::string& other_part = "") {
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_THAT(std::string(status.message()), HasSubstr(other_part));
  }
  static std::vector<std::string> Names(const std::vector<CorpusFile>& files) {
    std::vector<std::string> names;
    for (const CorpusFile& file : files) names.push_back(std::filesystem::path(file.path).filename());
    return names;
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  v1::DataSpec data_;
};

TEST_F(TextCorpusTest, CountsSamplesThatLeaveRoomForTheLastLabel) {
  for (const size_t bytes : {1u, 10u, 11u, 20u, 21u}) Write(absl::StrCat("f", bytes + 100), bytes);
  Train("*");
  const auto corpus = Open();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  std::vector<uint64_t> samples;
  for (const CorpusFile& file : corpus->train) samples.push_back(file.num_samples);
  EXPECT_THAT(samples, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(corpus->num_train_samples, 4u);
  EXPECT_EQ(corpus->num_validation_samples, 0u);
}

TEST_F(TextCorpusTest, TakesSourcesInTheirOrderAndMatchesBytewise) {
  for (const char* name : {"b", "a", "B", "z"}) Write(name, 50);
  Train("z");
  Train("*");
  EXPECT_THAT(Names(Open()->train), ElementsAre("z", "B", "a", "b"));
}

TEST_F(TextCorpusTest, TakesAFileOnceAlsoThroughLinks) {
  Write("a", 50);
  ASSERT_EQ(symlink("a", directory_.Path("0-link").c_str()), 0);
  Train("*");
  Train("../*/a");
  EXPECT_THAT(Names(Open()->train), ElementsAre("a"));
}

TEST_F(TextCorpusTest, ValidationFilesAreNotTrainedOn) {
  Write("a", 50);
  Write("b", 51);
  Train("*");
  Validate("b");
  const auto corpus = Open();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(Names(corpus->train), ElementsAre("a"));
  EXPECT_THAT(Names(corpus->validation), ElementsAre("b"));
  EXPECT_EQ(corpus->num_train_samples, 4u);
  EXPECT_EQ(corpus->num_validation_samples, 5u);
}

TEST_F(TextCorpusTest, FractionHoldsOutWholeFilesNearTheFraction) {
  size_t total = 0;
  for (size_t i = 0; i < 40; ++i) {
    Write(absl::StrCat("f", 10 + i), 100 + 10 * i);
    total += 100 + 10 * i;
  }
  Train("*");
  data_.set_validation_fraction(0.2);
  const auto corpus = Open();
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  size_t held = 0;
  for (const CorpusFile& file : corpus->validation) held += file.bytes;
  EXPECT_NEAR(static_cast<double>(held), 0.2 * static_cast<double>(total), 245);  // half of the largest
  EXPECT_EQ(corpus->train.size() + corpus->validation.size(), 40u);
  EXPECT_EQ(Names(Open()->validation), Names(corpus->validation));
  data_.set_seed(1);
  EXPECT_NE(Names(Open()->validation), Names(corpus->validation));
}

TEST_F(TextCorpusTest, FractionHoldsOutAtLeastOneFileAndNeverAll) {
  Write("a", 500);
  Write("b", 600);
  Write("c", 5);  // no sample: never the held-out one
  Train("*");
  for (const double fraction : {0.001, 0.999}) {
    data_.set_validation_fraction(fraction);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      data_.set_seed(seed);
      const auto corpus = Open();
      ASSERT_TRUE(corpus.ok()) << corpus.status();
      ASSERT_EQ(corpus->validation.size(), 1u);
      EXPECT_GT(corpus->num_validation_samples, 0u);
      EXPECT_GT(corpus->num_train_samples, 0u);
      if (fraction < 0.5) {
        EXPECT_THAT(Names(corpus->validation), ElementsAre("a"));
      }
    }
  }
}

TEST_F(TextCorpusTest, RefusesAPatternWithoutFiles) {
  Train("*.txt");
  ExpectInvalid("data.train[0].path: ", directory_.Path("*.txt"));
}

TEST_F(TextCorpusTest, RefusesADirectory) {
  Train("");
  ExpectInvalid("data.train[0].path: ", directory_.path());
}

TEST_F(TextCorpusTest, RefusesAnEmptyFile) {
  Write("a", 50);
  Write("b", 0);
  Train("a");
  Train("b");
  ExpectInvalid("data.train[1].path: ", "b is empty");
}

TEST_F(TextCorpusTest, RefusesUnreadableFiles) {
  Write("a", 50);
  Train("a");
  files_.Add({FileOperation::kRead, "a", 0, absl::UnknownError("Input/output error")});
  ExpectInvalid("data.train[0].path: ", "Input/output error");
  files_.Add({FileOperation::kOpen, "a", 0, absl::PermissionDeniedError("Permission denied")});
  ExpectInvalid("data.train[0].path: ", "Permission denied");
  files_.Add({FileOperation::kResolve, "a", 0, absl::NotFoundError("gone")});
  ExpectInvalid("data.train[0].path: ", "gone");
  files_.Add({FileOperation::kGlob, "a", 0, absl::PermissionDeniedError("no entry")});
  ExpectInvalid("data.train[0].path: ", "no entry");
}

TEST_F(TextCorpusTest, RefusesTextShorterThanASample) {
  Write("a", 10);
  Train("a");
  ExpectInvalid("data.train: the text is shorter", "10 bytes, training.seq_len 10 needs 11");
  Write("b", 50);
  Train("b");
  Validate("a");
  ExpectInvalid("data.validation: the text is shorter");
}

TEST_F(TextCorpusTest, RefusesWhenNothingIsLeftToTrainOn) {
  Write("a", 50);
  Train("a");
  Validate("*");
  ExpectInvalid("data.train: nothing is left");
  Write("c", 5);
  Train("c");
  Validate("a");
  data_.mutable_validation()->DeleteSubrange(0, 1);
  ExpectInvalid("data.train, without data.validation: the text is shorter");
}

TEST_F(TextCorpusTest, RefusesAFractionOfOneFile) {
  Write("a", 50);
  Write("b", 3);
  Train("*");
  data_.set_validation_fraction(0.1);
  ExpectInvalid("data.validation_fraction: 0.1 holds out whole files", "has 1 of at least one sample");
}

TEST(StepSamplesTest, APassTakesEverySampleOnceAndItsLastStepWhatIsLeft) {
  uint64_t next = 0;
  std::vector<uint64_t> sizes;
  for (uint64_t step = 1; step <= 9; ++step) {
    const StepSamples samples = SamplesOfStep(step, 10, 4);
    EXPECT_EQ(samples.first_sample, next);
    next += samples.num_samples;
    sizes.push_back(samples.num_samples);
  }
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2, 4, 4, 2, 4, 4, 2));
  EXPECT_EQ(next, 30u);
}

TEST(StepSamplesTest, ABatchLargerThanTheDataIsThePass) {
  EXPECT_EQ(SamplesOfStep(3, 10, 64).first_sample, 20u);
  EXPECT_EQ(SamplesOfStep(3, 10, 64).num_samples, 10u);
  EXPECT_EQ(SamplesOfStep(3, 10, 10).first_sample, 20u);
}

}  // namespace
}  // namespace stagecoach
