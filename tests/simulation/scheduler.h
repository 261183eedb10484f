#ifndef STAGECOACH_TESTS_SIMULATION_SCHEDULER_H_
#define STAGECOACH_TESTS_SIMULATION_SCHEDULER_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "tests/simulation/random.h"

namespace stagecoach::simulation {

// Virtual time: runs one action after another, each at its moment; actions of the same moment in an order that chance
// decides.
class Scheduler {
 public:
  using Action = absl::AnyInvocable<void()>;

  explicit Scheduler(Random& random) : random_(random) {}

  absl::Duration now() const { return now_; }
  void After(absl::Duration delay, Action action) {
    events_.push_back({now_ + std::max(delay, absl::ZeroDuration()), random_.Next(), std::move(action)});
    std::push_heap(events_.begin(), events_.end(), IsLater);
  }
  // False: nothing is left to happen.
  bool RunNext() {
    if (events_.empty()) return false;
    std::pop_heap(events_.begin(), events_.end(), IsLater);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.time;
    event.action();
    return true;
  }

 private:
  struct Event {
    absl::Duration time;
    uint64_t tie;
    Action action;
  };
  static bool IsLater(const Event& a, const Event& b) { return std::pair(a.time, a.tie) > std::pair(b.time, b.tie); }

  Random& random_;
  absl::Duration now_;
  std::vector<Event> events_;  // a heap
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SCHEDULER_H_
