#ifndef STAGECOACH_WORKER_DATA_TEXT_BATCH_SOURCE_H_
#define STAGECOACH_WORKER_DATA_TEXT_BATCH_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "formats/text_corpus.h"
#include "stagecoach/v1/job.pb.h"
#include "worker/data/batch_source.h"
#include "worker/data/sample_order.h"

namespace stagecoach {

// Samples of text files, a byte a token, as formats/text_corpus.h counts them. A training pass takes them in the order
// of SampleOrder, or as they lie when data.shuffle is false; validation always as they lie. Keeps the files open and
// reads at an offset, so nothing depends on what was read before. No label is masked: every token of a text has a next
// one. See BatchSource for threads and memory.
class TextBatchSource final : public BatchSource {
 public:
  // INVALID_ARGUMENT: see OpenTextCorpus; a tokenizer other than `byte`. Errors of the file system when a file that
  // could be opened a moment ago cannot be opened now.
  static absl::StatusOr<std::unique_ptr<TextBatchSource>> Create(const v1::DataSpec& data, uint64_t seq_len,
                                                                 FileSystem& files);

  uint64_t num_train_samples() const { return train_.num_samples; }
  uint64_t num_validation_samples() const { return validation_.num_samples; }

  // INVALID_ARGUMENT: a tensor that is not i32 [samples, seq_len], both of one size. FAILED_PRECONDITION: the split has
  // no samples. DATA_LOSS: the size of a file is not what it was.
  absl::Status Load(DataSplit split, uint64_t first_sample, const Tensor& tokens, const Tensor& labels) override;

 private:
  struct OpenFile {
    std::string path;
    std::unique_ptr<RandomAccessFile> file;
    uint64_t first_sample = 0;  // of this file, in its split
  };
  struct Split {
    std::vector<OpenFile> files;  // those with samples
    uint64_t num_samples = 0;
    std::optional<SampleOrder> order;
  };

  explicit TextBatchSource(uint64_t seq_len) : seq_len_(seq_len), buffer_(seq_len + 1) {}
  static absl::StatusOr<Split> OpenSplit(const std::vector<CorpusFile>& corpus, FileSystem& files);
  absl::Status CheckTensor(const Tensor& tensor) const;
  // Into buffer_: the sample's tokens and the one after them.
  absl::Status ReadSample(const Split& split, uint64_t sample);

  const uint64_t seq_len_;
  std::vector<uint8_t> buffer_;
  Split train_;
  Split validation_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DATA_TEXT_BATCH_SOURCE_H_
