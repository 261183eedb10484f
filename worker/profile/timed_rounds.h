#ifndef STAGECOACH_WORKER_PROFILE_TIMED_ROUNDS_H_
#define STAGECOACH_WORKER_PROFILE_TIMED_ROUNDS_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/profile/layer_profiler.h"

namespace stagecoach {

// The calls of one layer; each returns when its work is complete.
struct TimedCalls {
  std::function<absl::Status()> forward, backward_input, backward_weight;
};

struct RoundOptions {
  int least = 3;                                    // rounds that count
  int most = 1000;                                  // likewise
  absl::Duration enough = absl::Milliseconds(100);  // as many more as begin within this
  absl::Duration long_round = absl::Seconds(1);     // when the first takes longer, one more is enough
};

// The shortest time that a call is said to take.
inline constexpr double kShortestCallSeconds = 1e-9;

// Makes rounds of F, I and W, as training does, and takes the median of each. The first round does not count: libraries
// compile, pages are touched. A shared machine interrupts calls now and then, which a median does not see, and which
// matters little to a call that takes long. Errors of the calls and of `may_go_on`.
absl::StatusOr<v1::LayerSeconds> MedianOfRounds(const TimedCalls& calls, const Clock& clock, const MayGoOn& may_go_on,
                                                const RoundOptions& options = {});

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_PROFILE_TIMED_ROUNDS_H_
