#ifndef STAGECOACH_COMMON_BACKOFF_H_
#define STAGECOACH_COMMON_BACKOFF_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace stagecoach {

// How long to wait before each attempt at something that keeps failing: not at all before the first retry, then
// `first`, doubled each time up to `longest`. Each wait is shortened at random to between half of it and all of it, so
// that many who failed together do not come back together. Pure; not thread-safe.
class Backoff {
 public:
  struct Options {
    absl::Duration first = absl::Milliseconds(50);
    absl::Duration longest = absl::Seconds(1);
  };
  Backoff(Options options, uint64_t seed) : options_(options), random_(seed) {}

  absl::Duration Next();
  void Reset() { next_ = absl::ZeroDuration(); }  // it has worked

 private:
  const Options options_;
  std::mt19937_64 random_;
  absl::Duration next_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_BACKOFF_H_
