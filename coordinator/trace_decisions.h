#ifndef STAGECOACH_COORDINATOR_TRACE_DECISIONS_H_
#define STAGECOACH_COORDINATOR_TRACE_DECISIONS_H_

#include "absl/time/time.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/input.h"
#include "coordinator/state.h"

namespace stagecoach {

// From the request until everyone has told its timeline.
inline constexpr absl::Duration kTraceTimeout = absl::Seconds(5);

// Asks the members of the job's newest epoch for their timelines, also after its end: they keep them until they take
// another job. The answer is an error, as coordinator.proto has it for ReadTrace, or the reading has begun. Pure: parts
// of Decide.
Decision RequestTrace(absl::Duration now, const State& state, const TraceRequested& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TRACE_DECISIONS_H_
