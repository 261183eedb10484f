#include "worker/data/text_batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

constexpr int64_t kSeqLen = 4;

class TextBatchSourceTest : public testing::Test {
 protected:
  TextBatchSourceTest() { data_.set_tokenizer("byte"); }

  void Train(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path(name), text).ok());
    data_.add_train()->set_path(directory_.Path(name));
  }
  void Validate(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(files_, directory_.Path(name), text).ok());
    data_.add_validation()->set_path(directory_.Path(name));
  }
  std::unique_ptr<TextBatchSource> Create() {
    auto source = TextBatchSource::Create(data_, kSeqLen, files_);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  absl::Status Load(TextBatchSource& source, DataSplit split, uint64_t first, int64_t samples) {
    tokens_.assign(static_cast<size_t>(samples * kSeqLen), -7);
    labels_ = tokens_;
    return source.Load(split, first, Batch(tokens_), Batch(labels_));
  }
  static Tensor Batch(std::vector<int32_t>& values) {
    return Tensor::Of(values.data(), v1::DTYPE_I32, {static_cast<int64_t>(values.size()) / kSeqLen, kSeqLen});
  }
  static std::string Text(const std::vector<int32_t>& values) { return std::string(values.begin(), values.end()); }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  v1::DataSpec data_;
  std::vector<int32_t> tokens_, labels_;
};

TEST_F(TextBatchSourceTest, LabelsAreTheTokensOneFurtherOn) {
  Train("a", "0123456789");
  Train("short", "xyz");
  Train("b", "abcde");
  const auto source = Create();
  EXPECT_EQ(source->num_train_samples(), 3u);
  ASSERT_TRUE(Load(*source, DataSplit::kTrain, 0, 3).ok());
  EXPECT_EQ(Text(tokens_), "01234567abcd");
  EXPECT_EQ(Text(labels_), "12345678bcde");
}

TEST_F(TextBatchSourceTest, BytesAreUnsignedTokens) {
  Train("a", "\xff\x80\x7f\x01\xfe");
  ASSERT_TRUE(Load(*Create(), DataSplit::kTrain, 0, 1).ok());
  EXPECT_THAT(tokens_, testing::ElementsAre(255, 128, 127, 1));
  EXPECT_THAT(labels_, testing::ElementsAre(128, 127, 1, 254));
}

TEST_F(TextBatchSourceTest, GlobalIndicesGoOnOverPasses) {
  Train("a", "0123456789");
  const auto source = Create();
  ASSERT_TRUE(Load(*source, DataSplit::kTrain, 3, 2).ok());
  EXPECT_EQ(Text(tokens_), "45670123");
}

TEST_F(TextBatchSourceTest, ShuffledPassesTakeEverySampleOnceInDifferentOrders) {
  std::string text;
  for (char c = 'A'; c < 'A' + 40; ++c) text += std::string(kSeqLen, c);
  Train("a", text + ".");
  Train("b", "zzzzz");
  data_.set_shuffle(true);
  data_.set_seed(5);
  const auto source = Create();
  ASSERT_EQ(source->num_train_samples(), 41u);
  std::set<std::string> passes;
  for (uint64_t pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(Load(*source, DataSplit::kTrain, pass * 41, 41).ok());
    const std::string got = Text(tokens_);
    EXPECT_EQ(std::multiset<char>(got.begin(), got.end()).count('z'), size_t{kSeqLen});
    EXPECT_EQ(std::set<char>(got.begin(), got.end()).size(), 41u);
    passes.insert(got);
  }
  EXPECT_EQ(passes.size(), 3u);
}

TEST_F(TextBatchSourceTest, ASampleDoesNotDependOnWhoAsksAndHow) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('!' + i % 90);
  Train("a", text);
  data_.set_shuffle(true);
  const auto one = Create();
  const auto other = Create();
  ASSERT_TRUE(Load(*one, DataSplit::kTrain, 90, 20).ok());
  const std::vector<int32_t> tokens = tokens_, labels = labels_;
  for (uint64_t i = 20; i-- > 0;) {
    ASSERT_TRUE(Load(*other, DataSplit::kTrain, 90 + i, 1).ok());
    EXPECT_TRUE(std::equal(tokens_.begin(), tokens_.end(), tokens.begin() + static_cast<ptrdiff_t>(i) * kSeqLen));
    EXPECT_TRUE(std::equal(labels_.begin(), labels_.end(), labels.begin() + static_cast<ptrdiff_t>(i) * kSeqLen));
  }
}

TEST_F(TextBatchSourceTest, ValidationIsNeverShuffled) {
  Train("a", "0123456789");
  Validate("v", "ABCDEFGHI");
  data_.set_shuffle(true);
  const auto source = Create();
  EXPECT_EQ(source->num_validation_samples(), 2u);
  ASSERT_TRUE(Load(*source, DataSplit::kValidation, 0, 2).ok());
  EXPECT_EQ(Text(tokens_), "ABCDEFGH");
}

TEST_F(TextBatchSourceTest, EitherTensorMayBeEmptyAndSoMayTheBatch) {
  Train("a", "0123456789");
  const auto source = Create();
  tokens_.resize(kSeqLen);
  ASSERT_TRUE(source->Load(DataSplit::kTrain, 1, Batch(tokens_), Tensor()).ok());
  EXPECT_EQ(Text(tokens_), "4567");
  ASSERT_TRUE(source->Load(DataSplit::kTrain, 1, Tensor(), Batch(tokens_)).ok());
  EXPECT_EQ(Text(tokens_), "5678");
  EXPECT_TRUE(source->Load(DataSplit::kTrain, 1, Tensor(), Tensor()).ok());
  EXPECT_TRUE(source->Load(DataSplit::kTrain, 1, Batch(tokens_).Slice(0, 0), Tensor()).ok());
}

TEST_F(TextBatchSourceTest, RefusesTensorsOfAnotherForm) {
  Train("a", "0123456789");
  const auto source = Create();
  std::vector<int32_t> values(3 * kSeqLen);
  const Tensor good = Tensor::Of(values.data(), v1::DTYPE_I32, {2, kSeqLen});
  for (const Tensor& bad : {Tensor::Of(values.data(), v1::DTYPE_F32, {2, kSeqLen}),
                            Tensor::Of(values.data(), v1::DTYPE_I32, {2, kSeqLen + 1}),
                            Tensor::Of(values.data(), v1::DTYPE_I32, {2 * kSeqLen}),
                            Tensor::Of(values.data(), v1::DTYPE_I32, {1, kSeqLen})}) {
    EXPECT_EQ(source->Load(DataSplit::kTrain, 0, good, bad).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(source->Load(DataSplit::kValidation, 0, good, good).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TextBatchSourceTest, AChangedSizeIsDataLossThatNamesTheFile) {
  Train("a", "0123456789");
  const auto source = Create();
  for (const off_t size : {9, 11}) {
    ASSERT_EQ(truncate(directory_.Path("a").c_str(), size), 0);
    const absl::Status status = Load(*source, DataSplit::kTrain, 0, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory_.Path("a") + ": its size changed from 10"));
  }
}

TEST_F(TextBatchSourceTest, ReadErrorsAreReported) {
  Train("a", "0123456789");
  const auto source = Create();
  files_.Add({FileOperation::kRead, "a", 0, absl::UnknownError("Input/output error")});
  EXPECT_EQ(Load(*source, DataSplit::kTrain, 0, 1).code(), absl::StatusCode::kUnknown);
}

TEST_F(TextBatchSourceTest, RefusesAnotherTokenizerAndBadData) {
  data_.set_tokenizer("gpt2");
  EXPECT_EQ(TextBatchSource::Create(data_, kSeqLen, files_).status().code(), absl::StatusCode::kInvalidArgument);
  data_.set_tokenizer("byte");
  data_.add_train()->set_path(directory_.Path("none"));
  EXPECT_EQ(TextBatchSource::Create(data_, kSeqLen, files_).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach
