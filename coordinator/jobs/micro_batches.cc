#include "coordinator/jobs/micro_batches.h"

#include <algorithm>

#include "common/check.h"

namespace stagecoach {

MicroBatches DivideSamples(uint64_t num_samples, uint64_t weight_samples, uint32_t num_micro_batches,
                           uint64_t micro_batch_size) {
  STAGECOACH_CHECK(num_samples <= num_micro_batches * micro_batch_size);
  MicroBatches batches;
  uint64_t left = num_samples;
  for (uint32_t i = 0; i < num_micro_batches; ++i) {
    const uint64_t samples = std::min(left, micro_batch_size);
    left -= samples;
    batches.samples.push_back(static_cast<uint32_t>(samples));
    batches.loss_weight.push_back(samples == 0 ? 0.0
                                               : static_cast<double>(samples) / static_cast<double>(weight_samples));
  }
  return batches;
}

}  // namespace stagecoach
