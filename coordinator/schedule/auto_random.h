#ifndef STAGECOACH_COORDINATOR_SCHEDULE_AUTO_RANDOM_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_AUTO_RANDOM_H_

#include <cstdint>

namespace stagecoach {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): the same numbers with every
// compiler and library, so a search finds the same table everywhere.
class AutoRandom {
 public:
  explicit AutoRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1; n is at least 1.
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(((Next() >> 32) * n) >> 32); }
  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  bool Coin() { return (Next() >> 63) != 0; }
  // About normal, mean 0, standard deviation 1: a sum of twelve uniform numbers.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Unit();
    return sum;
  }

 private:
  uint64_t state_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_AUTO_RANDOM_H_
