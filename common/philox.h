#ifndef STAGECOACH_COMMON_PHILOX_H_
#define STAGECOACH_COMMON_PHILOX_H_

#include <array>
#include <cstdint>

namespace stagecoach {

// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011),
// section 4: 128 random bits that are a function of a key and a counter, so that nothing depends on who asks, or when.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

constexpr PhiloxKey PhiloxKeyFrom(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// Folds `word` into a seed; the way in which keys with several parts (seed, step, layer, sample, operation) are made.
constexpr uint64_t MixSeed(uint64_t seed, uint64_t word) {
  const PhiloxCounter mixed =
      Philox({static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32), 0x53544147u, 0u}, PhiloxKeyFrom(seed));
  return static_cast<uint64_t>(mixed[1]) << 32 | mixed[0];
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_PHILOX_H_
