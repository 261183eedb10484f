#include "common/clock.h"

#include <chrono>

namespace stagecoach {
namespace {

class MonotonicClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }
};

}  // namespace

const Clock& Clock::Real() {
  static const MonotonicClock clock;
  return clock;
}

}  // namespace stagecoach
