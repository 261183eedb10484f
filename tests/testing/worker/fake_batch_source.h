#ifndef STAGECOACH_TESTS_TESTING_WORKER_FAKE_BATCH_SOURCE_H_
#define STAGECOACH_TESTS_TESTING_WORKER_FAKE_BATCH_SOURCE_H_

#include <vector>

#include "worker/data/batch_source.h"

namespace stagecoach {

// Every token of sample s is s, every label 1000 + s.
class FakeBatchSource final : public BatchSource {
 public:
  struct Call {
    DataSplit split;
    uint64_t first_sample;
    bool tokens, labels;
    int64_t samples;
  };
  explicit FakeBatchSource(bool record = true) : record_(record) {}

  absl::Status Load(DataSplit split, uint64_t first_sample, const Tensor& tokens, const Tensor& labels) override {
    if (record_) {
      calls.push_back(
          {split, first_sample, !tokens.empty(), !labels.empty(), (tokens.empty() ? labels : tokens).dims[0]});
    }
    Fill(tokens, first_sample, 0);
    Fill(labels, first_sample, 1000);
    return absl::OkStatus();
  }

  std::vector<Call> calls;

 private:
  static void Fill(const Tensor& tensor, uint64_t first_sample, int base) {
    if (tensor.empty()) return;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.as<int32_t>()[i] = base + static_cast<int>(first_sample) + static_cast<int>(i / tensor.columns());
    }
  }

  const bool record_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_FAKE_BATCH_SOURCE_H_
