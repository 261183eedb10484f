#ifndef STAGECOACH_TESTS_TESTING_WORKER_FAKE_CLOCK_H_
#define STAGECOACH_TESTS_TESTING_WORKER_FAKE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "common/clock.h"

namespace stagecoach {

// Stands still until told. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Duration Now() const override { return absl::Nanoseconds(nanoseconds_.load()); }
  void Advance(absl::Duration by) { nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(by)); }

 private:
  std::atomic<int64_t> nanoseconds_{0};
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_FAKE_CLOCK_H_
