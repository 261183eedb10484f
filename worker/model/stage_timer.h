#ifndef STAGECOACH_WORKER_MODEL_STAGE_TIMER_H_
#define STAGECOACH_WORKER_MODEL_STAGE_TIMER_H_

#include <memory>

#include "absl/time/time.h"

namespace stagecoach {

// Lets the time of simulated work pass. Used by one thread.
class StageTimer {
 public:
  virtual ~StageTimer() = default;
  virtual absl::Duration Now() const = 0;  // as Clock
  // Sleeps; not after `time`, but for what the system needs to wake the thread. May return early.
  virtual void SleepUntil(absl::Duration time) = 0;

  // Real time, for the calling thread: its timers are from now on as exact as the system can make them, not up to 50 us
  // late to be bundled with others.
  static std::unique_ptr<StageTimer> Real();
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_STAGE_TIMER_H_
