#ifndef STAGECOACH_WORKER_AGENT_TRACE_MESSAGES_H_
#define STAGECOACH_WORKER_AGENT_TRACE_MESSAGES_H_

#include <optional>
#include <vector>

#include "stagecoach/v1/trace.pb.h"
#include "worker/agent/clock_offset.h"
#include "worker/executor/trace_ring.h"

namespace stagecoach {

// The answer to `order`, in pieces of 256 KiB at most (the ring has records for 60 of them), the last of which says so.
// Does not hold up whoever records for longer than the copy of one run takes.
std::vector<v1::TracePart> AnswerReadTrace(const v1::ReadTrace& order, const TraceRing& ring,
                                           const std::optional<ClockOffsetEstimator::Estimate>& clock);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_TRACE_MESSAGES_H_
