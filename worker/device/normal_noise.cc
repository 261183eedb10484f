#include "worker/device/normal_noise.h"

#include <cmath>
#include <numbers>

#include "common/philox.h"

namespace stagecoach {

std::array<double, 2> NormalPair(uint64_t seed, uint64_t pair) {
  const PhiloxCounter words =
      Philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), 0, 0}, PhiloxKeyFrom(seed));
  const double u1 = (static_cast<double>(words[0]) + 1) * 0x1p-32;
  const double angle = 2 * std::numbers::pi * (static_cast<double>(words[1]) * 0x1p-32);
  const double radius = std::sqrt(-2 * std::log(u1));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace stagecoach
