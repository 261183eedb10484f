#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_DROPOUT_MASK_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_DROPOUT_MASK_H_

#include <cmath>
#include <cstdint>

#include "common/philox.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// What an element is multiplied by: 0 when it is dropped, 1 / (1 - probability) when it is kept. `element` counts
// within `sample`, a position in the micro-batch.
inline double DropoutFactor(const Dropout& dropout, int64_t sample, int64_t element) {
  if (dropout.probability == 0) return 1;
  const uint64_t seed = MixSeed(dropout.seed, dropout.first_sample + static_cast<uint64_t>(sample));
  const uint64_t quad = static_cast<uint64_t>(element) / 4;
  const PhiloxCounter words =
      Philox({static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32), 0, 0}, PhiloxKeyFrom(seed));
  const double threshold = std::floor(dropout.probability * 0x1p32);
  const bool kept = words[static_cast<size_t>(element % 4)] >= threshold;
  return kept ? 1 / (1 - dropout.probability) : 0;
}

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_DROPOUT_MASK_H_
