#ifndef STAGECOACH_COMMON_HEALTH_LIVENESS_H_
#define STAGECOACH_COMMON_HEALTH_LIVENESS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace stagecoach {

// Whether a loop turns, for who asks now and then. One that has not turned yet lives: it is being started, which may
// take long (a journal to replay). Neither peers nor progress of jobs count: a restart would not help those. Used by
// one thread.
class Liveness {
 public:
  explicit Liveness(absl::Duration patience) : patience_(patience) {}

  // `turns`: of the loop's LoopBeat, at `now`.
  bool IsLive(uint64_t turns, absl::Duration now) {
    if (turns != turns_) last_turn_ = now;
    turns_ = turns;
    return turns == 0 || now - last_turn_ < patience_;
  }

 private:
  const absl::Duration patience_;
  uint64_t turns_ = 0;
  absl::Duration last_turn_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_HEALTH_LIVENESS_H_
