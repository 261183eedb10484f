#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_BACKOFF_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_BACKOFF_H_

#include <algorithm>

#include "absl/time/time.h"

namespace stagecoach {

// How long to wait before each next attempt: `first`, then twice as long each time, up to `longest`.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest), next_(first) {}

  absl::Duration Next() {
    const absl::Duration wait = next_;
    next_ = std::min(longest_, 2 * next_);
    return wait;
  }
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration longest_;
  absl::Duration next_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_BACKOFF_H_
