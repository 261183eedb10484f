#ifndef STAGECOACH_WORKER_DEVICE_CPU_DROPOUT_CONSTANTS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_DROPOUT_CONSTANTS_H_

#include <cmath>
#include <cstdint>

#include "common/philox.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// What a kernel needs of a Dropout with a probability above 0, for one sample of the micro-batch.
struct DropoutConstants {
  PhiloxKey key;
  uint32_t threshold;  // a smaller word drops its element
  float scale;         // of kept elements
};

inline DropoutConstants ConstantsOf(const Dropout& dropout, int64_t sample) {
  const uint64_t seed = MixSeed(dropout.seed, dropout.first_sample + static_cast<uint64_t>(sample));
  return {PhiloxKeyFrom(seed), static_cast<uint32_t>(std::floor(dropout.probability * 0x1p32)),
          static_cast<float>(1 / (1 - dropout.probability))};
}

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_DROPOUT_CONSTANTS_H_
