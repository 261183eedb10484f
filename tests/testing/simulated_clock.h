#ifndef STAGECOACH_TESTS_TESTING_SIMULATED_CLOCK_H_
#define STAGECOACH_TESTS_TESTING_SIMULATED_CLOCK_H_

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace stagecoach {

// A clock that stands still until it is told. Thread-safe.
class SimulatedClock : public Clock {
 public:
  absl::Duration Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_SIMULATED_CLOCK_H_
