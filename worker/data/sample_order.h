#ifndef STAGECOACH_WORKER_DATA_SAMPLE_ORDER_H_
#define STAGECOACH_WORKER_DATA_SAMPLE_ORDER_H_

#include <cstdint>

namespace stagecoach {

// The order in which data passes take samples: for each pass a bijection of [0, num_samples), keyed by (seed, pass) and
// computed for one position at a time, so that there is no list to build, keep or restore. A Feistel network over the
// next even number of bits, walked until it lands inside (at most four steps on average). Immutable, thread-safe.
class SampleOrder {
 public:
  SampleOrder(uint64_t seed, uint64_t num_samples);
  uint64_t SampleAt(uint64_t pass, uint64_t position) const;  // position < num_samples

 private:
  uint64_t seed_;
  uint64_t num_samples_;
  unsigned half_bits_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DATA_SAMPLE_ORDER_H_
