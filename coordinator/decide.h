#ifndef STAGECOACH_COORDINATOR_DECIDE_H_
#define STAGECOACH_COORDINATOR_DECIDE_H_

#include "absl/time/time.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/state.h"

namespace stagecoach {

// What the coordinator does about an input. Pure: `now` is its monotonic clock, and effects change nothing here. An
// input that is fenced, late, or there twice has no effects, and the reason says so. Effects are to be run in order,
// before the next call.
Decision Decide(absl::Duration now, const State& state, const Input& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_DECIDE_H_
