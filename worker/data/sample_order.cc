#include "worker/data/sample_order.h"

#include <algorithm>
#include <bit>

#include "common/check.h"
#include "common/philox.h"

namespace stagecoach {
namespace {

constexpr uint64_t kSampleOrderStream = 0x6f726465726f6631;  // keeps this use of the data seed apart from the hold-out
constexpr uint32_t kRounds = 6;

}  // namespace

SampleOrder::SampleOrder(uint64_t seed, uint64_t num_samples)
    : seed_(MixSeed(seed, kSampleOrderStream)),
      num_samples_(num_samples),
      half_bits_(std::max(1u, (static_cast<unsigned>(std::bit_width(num_samples - 1)) + 1) / 2)) {
  STAGECOACH_CHECK(num_samples > 0);
}

uint64_t SampleOrder::SampleAt(uint64_t pass, uint64_t position) const {
  STAGECOACH_CHECK(position < num_samples_);
  const PhiloxKey key = PhiloxKeyFrom(MixSeed(seed_, pass));
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = position;
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (Philox({static_cast<uint32_t>(right), round, 0, 0}, key)[0] & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= num_samples_);
  return value;
}

}  // namespace stagecoach
