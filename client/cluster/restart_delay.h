#ifndef STAGECOACH_CLIENT_CLUSTER_RESTART_DELAY_H_
#define STAGECOACH_CLIENT_CLUSTER_RESTART_DELAY_H_

#include <algorithm>

#include "absl/time/time.h"

namespace stagecoach {

// How long a program that has died is left dead: shortly when it had run for a while, and twice as long each time that
// it dies soon after its start. Pure.
class RestartDelay {
 public:
  static constexpr absl::Duration kFirst = absl::Milliseconds(50);
  static constexpr absl::Duration kLongest = absl::Seconds(2);  // well within what a job waits for its coordinator
  static constexpr absl::Duration kSound = absl::Seconds(5);    // who has run so long is not taken for broken

  absl::Duration AfterDeath(absl::Duration lived) {
    next_ = lived >= kSound ? kFirst : std::min(kLongest, 2 * next_);
    return next_;
  }

 private:
  absl::Duration next_ = kFirst / 2;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_CLUSTER_RESTART_DELAY_H_
