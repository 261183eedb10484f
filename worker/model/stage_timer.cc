#include "worker/model/stage_timer.h"

#include <sys/prctl.h>
#include <time.h>

#include "common/clock.h"

namespace stagecoach {
namespace {

class RealStageTimer final : public StageTimer {
 public:
  absl::Duration Now() const override { return Clock::Real().Now(); }
  // An absolute deadline: time that passes before the call is not slept again. Clock::Real is CLOCK_MONOTONIC.
  void SleepUntil(absl::Duration time) override {
    const timespec deadline = absl::ToTimespec(time);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
  }
};

}  // namespace

std::unique_ptr<StageTimer> StageTimer::Real() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  return std::make_unique<RealStageTimer>();
}

}  // namespace stagecoach
