#ifndef STAGECOACH_TESTS_SIMULATION_VIOLATIONS_H_
#define STAGECOACH_TESTS_SIMULATION_VIOLATIONS_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach::simulation {

// The first law that was broken in a run; the run ends then.
class Violations {
 public:
  void Report(absl::string_view law, absl::string_view what) {
    if (!first_.has_value()) first_ = absl::StrCat(law, ": ", what);
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  std::optional<std::string> first_;
};

}  // namespace stagecoach::simulation

#endif  // STAGECOACH_TESTS_SIMULATION_VIOLATIONS_H_
