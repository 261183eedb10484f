#ifndef STAGECOACH_COMMON_TRACE_TRACE_LIMITS_H_
#define STAGECOACH_COMMON_TRACE_TRACE_LIMITS_H_

#include <cstdint>

namespace stagecoach {

// Steps of which the timeline is kept. Enough to see a hiccup among its neighbours, and to ask for one that has just
// been noticed; what changes over more steps than that is for metrics.
inline constexpr uint32_t kMostTracedSteps = 32;

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_TRACE_TRACE_LIMITS_H_
