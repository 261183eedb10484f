#include "worker/profile/timed_rounds.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/status_macros.h"

namespace stagecoach {
namespace {

// Of one call, over rounds.
class Times {
 public:
  void Add(absl::Duration time) { seconds_.push_back(absl::ToDoubleSeconds(time)); }
  void Clear() { seconds_.clear(); }
  size_t size() const { return seconds_.size(); }
  double Median() {
    const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    return std::max(*middle, kShortestCallSeconds);
  }

 private:
  std::vector<double> seconds_;
};

absl::Status TimeOne(const std::function<absl::Status()>& call, const Clock& clock, const MayGoOn& may_go_on,
                     Times& times) {
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  const absl::Duration begin = clock.Now();
  STAGECOACH_RETURN_IF_ERROR(call());
  times.Add(clock.Now() - begin);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::LayerSeconds> MedianOfRounds(const TimedCalls& calls, const Clock& clock, const MayGoOn& may_go_on,
                                                const RoundOptions& options) {
  Times forward, backward_input, backward_weight;
  const auto run_round = [&]() -> absl::Status {
    STAGECOACH_RETURN_IF_ERROR(TimeOne(calls.forward, clock, may_go_on, forward));
    STAGECOACH_RETURN_IF_ERROR(TimeOne(calls.backward_input, clock, may_go_on, backward_input));
    return TimeOne(calls.backward_weight, clock, may_go_on, backward_weight);
  };
  const absl::Duration first = clock.Now();
  STAGECOACH_RETURN_IF_ERROR(run_round());
  const int least = clock.Now() - first > options.long_round ? 1 : options.least;
  for (Times* times : {&forward, &backward_input, &backward_weight}) times->Clear();
  const auto goes_on = [&, begin = clock.Now()] {
    const auto rounds = static_cast<int>(forward.size());
    return rounds < least || (rounds < options.most && clock.Now() - begin < options.enough);
  };
  while (goes_on()) STAGECOACH_RETURN_IF_ERROR(run_round());
  v1::LayerSeconds seconds;
  seconds.set_forward(forward.Median());
  seconds.set_backward_input(backward_input.Median());
  seconds.set_backward_weight(backward_weight.Median());
  return seconds;
}

}  // namespace stagecoach
