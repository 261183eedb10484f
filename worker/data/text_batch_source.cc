#include "worker/data/text_batch_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::StatusOr<std::unique_ptr<TextBatchSource>> TextBatchSource::Create(const v1::DataSpec& data, uint64_t seq_len,
                                                                         FileSystem& files) {
  if (data.tokenizer() != "byte") {
    return absl::InvalidArgumentError(
        absl::StrCat("data.tokenizer: ", Quoted(data.tokenizer()), " is not built; this build has byte"));
  }
  STAGECOACH_ASSIGN_OR_RETURN(const TextCorpus corpus, OpenTextCorpus(data, seq_len, files));
  auto source = std::unique_ptr<TextBatchSource>(new TextBatchSource(seq_len));
  STAGECOACH_ASSIGN_OR_RETURN(source->train_, OpenSplit(corpus.train, files));
  STAGECOACH_ASSIGN_OR_RETURN(source->validation_, OpenSplit(corpus.validation, files));
  if (data.shuffle()) source->train_.order.emplace(data.seed(), source->train_.num_samples);
  return source;
}

absl::StatusOr<TextBatchSource::Split> TextBatchSource::OpenSplit(const std::vector<CorpusFile>& corpus,
                                                                  FileSystem& files) {
  Split split;
  for (const CorpusFile& file : corpus) {
    if (file.num_samples == 0) continue;
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> open, files.Open(file.path));
    if (open->size() != file.bytes) {
      return absl::DataLossError(absl::StrCat(file.path, ": its size changed from ", file.bytes, " to ", open->size(),
                                              " bytes while it was opened; leave training data alone"));
    }
    split.files.push_back({file.path, std::move(open), split.num_samples});
    split.num_samples += file.num_samples;
  }
  return split;
}

absl::Status TextBatchSource::CheckTensor(const Tensor& tensor) const {
  if (tensor.dtype == v1::DTYPE_I32 && tensor.rank == 2 && tensor.columns() == static_cast<int64_t>(seq_len_)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a batch is i32[samples, ", seq_len_, "], asked to fill ", tensor.ShapeString()));
}

absl::Status TextBatchSource::Load(DataSplit split, uint64_t first_sample, const Tensor& tokens, const Tensor& labels) {
  if (!tokens.empty()) STAGECOACH_RETURN_IF_ERROR(CheckTensor(tokens));
  if (!labels.empty()) STAGECOACH_RETURN_IF_ERROR(CheckTensor(labels));
  if (!tokens.empty() && !labels.empty() && tokens.rows() != labels.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens are ", tokens.ShapeString(), ", labels ", labels.ShapeString()));
  }
  const Split& from = split == DataSplit::kTrain ? train_ : validation_;
  const int64_t rows = tokens.empty() ? (labels.empty() ? 0 : labels.rows()) : tokens.rows();
  if (rows > 0 && from.num_samples == 0) return absl::FailedPreconditionError("there is no validation data");
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t index = first_sample + static_cast<uint64_t>(row);
    const uint64_t position = index % from.num_samples;
    STAGECOACH_RETURN_IF_ERROR(
        ReadSample(from, from.order ? from.order->SampleAt(index / from.num_samples, position) : position));
    const size_t offset = static_cast<size_t>(row) * seq_len_;
    if (!tokens.empty()) std::copy_n(buffer_.begin(), seq_len_, tokens.as<int32_t>() + offset);
    if (!labels.empty()) std::copy_n(buffer_.begin() + 1, seq_len_, labels.as<int32_t>() + offset);
  }
  return absl::OkStatus();
}

absl::Status TextBatchSource::ReadSample(const Split& split, uint64_t sample) {
  const auto after = std::upper_bound(split.files.begin(), split.files.end(), sample,
                                      [](uint64_t wanted, const OpenFile& file) { return wanted < file.first_sample; });
  const OpenFile& file = *std::prev(after);
  STAGECOACH_ASSIGN_OR_RETURN(const uint64_t size, file.file->CurrentSize());
  if (size != file.file->size()) {
    return absl::DataLossError(absl::StrCat(file.path, ": its size changed from ", file.file->size(), " to ", size,
                                            " bytes; leave training data alone while a job runs"));
  }
  const absl::Status status = file.file->Read((sample - file.first_sample) * seq_len_, buffer_.size(), buffer_.data());
  if (absl::IsOutOfRange(status)) return absl::DataLossError(status.message());
  return status;
}

}  // namespace stagecoach
