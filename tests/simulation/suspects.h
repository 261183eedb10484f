#ifndef STAGECOACH_TESTS_SIMULATION_SUSPECTS_H_
#define STAGECOACH_TESTS_SIMULATION_SUSPECTS_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace stagecoach::simulation {

// Which workers a fault has touched, and when last: no other may be called the cause of anything.
class Suspects {
 public:
  void Touch(const std::string& worker, absl::Duration now) { touched_[worker] = now; }
  // While the fault lasts.
  void Hold(const std::string& worker, bool holds, absl::Duration now) {
    Touch(worker, now);
    held_[worker] += holds ? 1 : -1;
  }
  void SuspectAll() { all_ = true; }
  bool MayBeBlamed(const std::string& worker, absl::Duration since) const {
    if (all_) return true;
    const auto held = held_.find(worker);
    if (held != held_.end() && held->second > 0) return true;
    const auto touched = touched_.find(worker);
    return touched != touched_.end() && touched->second >= since;
  }

 private:
  bool all_ = false;
  std::map<std::string, absl::Duration> touched_;
  std::map<std::string, int> held_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_SUSPECTS_H_
