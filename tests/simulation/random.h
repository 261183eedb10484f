#ifndef STAGECOACH_TESTS_SIMULATION_RANDOM_H_
#define STAGECOACH_TESTS_SIMULATION_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace stagecoach::simulation {

// A 64-bit value that depends on every bit of both arguments.
constexpr uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9e3779b97f4a7c15ULL * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The only source of chance in a simulation: equal seeds, equal numbers, on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed, 1)) {}

  uint64_t Next() { return Mix(state_++, 2); }
  uint64_t Below(uint64_t bound) { return Next() % bound; }  // bound > 0
  bool Chance(double probability) { return static_cast<double>(Next() >> 11) * 0x1p-53 < probability; }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    const int64_t span = absl::ToInt64Microseconds(most - least);
    return least + absl::Microseconds(static_cast<int64_t>(Below(static_cast<uint64_t>(span) + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_RANDOM_H_
