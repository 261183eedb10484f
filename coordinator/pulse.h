#ifndef STAGECOACH_COORDINATOR_PULSE_H_
#define STAGECOACH_COORDINATOR_PULSE_H_

#include <optional>

#include "absl/time/time.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/state.h"

namespace stagecoach {

// A coordinator that stood still (its process was stopped, its host was busy, its disk was slow) has heard nobody
// meanwhile, which is nobody's fault but its own. It looks at the clock with every interval of heartbeats; when it does
// so late, everything that it waits for gets as much more time. Pure: parts of Decide.

// The first look, of a coordinator that has just started.
ObserveFact FirstPulse(absl::Duration now, const State& state);
// nullopt: it is not due.
std::optional<Decision> OnPulse(absl::Duration now, const State& state);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PULSE_H_
