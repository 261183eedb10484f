#ifndef STAGECOACH_COORDINATOR_DEADLINES_H_
#define STAGECOACH_COORDINATOR_DEADLINES_H_

#include "absl/time/time.h"
#include "coordinator/state.h"

namespace stagecoach {

// When the coordinator has to look again though nothing is said: at that time a Tick has effects. Infinite: it need
// not. Pure.
absl::Duration NextDeadline(const State& state);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_DEADLINES_H_
