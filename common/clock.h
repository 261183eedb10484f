#ifndef STAGECOACH_COMMON_CLOCK_H_
#define STAGECOACH_COMMON_CLOCK_H_

#include "absl/time/time.h"

namespace stagecoach {

// Time as a dependency. Monotonic: never set back, never compared across processes. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Duration Now() const = 0;  // since an arbitrary start

  static const Clock& Real();
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_CLOCK_H_
