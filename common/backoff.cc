#include "common/backoff.h"

#include <algorithm>

namespace stagecoach {

absl::Duration Backoff::Next() {
  const absl::Duration wait = next_ * std::uniform_real_distribution<double>(0.5, 1)(random_);
  next_ = std::clamp(2 * next_, options_.first, options_.longest);
  return wait;
}

}  // namespace stagecoach
