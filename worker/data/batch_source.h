#ifndef STAGECOACH_WORKER_DATA_BATCH_SOURCE_H_
#define STAGECOACH_WORKER_DATA_BATCH_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/tensor.h"

namespace stagecoach {

enum class DataSplit { kTrain, kValidation };

// Samples as a pure function of (split, data seed, global sample index): no iterator state, so that resuming,
// repartitioning and reading the same sample on two stages need nothing. Executor's thread only; no allocation after
// the first call.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `tokens` and `labels`, i32 [samples, seq] in host memory, with samples first_sample, first_sample + 1, ...
  // Either may be empty. Label t is token t + 1; -1 is masked. DATA_LOSS: a file changed or shrank since it was opened.
  virtual absl::Status Load(DataSplit split, uint64_t first_sample, const Tensor& tokens, const Tensor& labels) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DATA_BATCH_SOURCE_H_
