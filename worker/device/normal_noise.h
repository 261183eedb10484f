#ifndef STAGECOACH_WORKER_DEVICE_NORMAL_NOISE_H_
#define STAGECOACH_WORKER_DEVICE_NORMAL_NOISE_H_

#include <array>
#include <cstdint>

namespace stagecoach {

// Elements 2 * pair and 2 * pair + 1 of the standard normal noise of `seed`, by Box-Muller in float64:
//   (w0, w1, -, -) = Philox({low word of pair, high word of pair, 0, 0}, key from seed)
//   u1 = (w0 + 1) * 2^-32 in (0, 1],  u2 = w1 * 2^-32 in [0, 1)
//   radius = sqrt(-2 ln u1),  {radius * cos(2 pi u2), radius * sin(2 pi u2)}
std::array<double, 2> NormalPair(uint64_t seed, uint64_t pair);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_NORMAL_NOISE_H_
