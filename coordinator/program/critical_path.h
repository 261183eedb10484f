#ifndef STAGECOACH_COORDINATOR_PROGRAM_CRITICAL_PATH_H_
#define STAGECOACH_COORDINATOR_PROGRAM_CRITICAL_PATH_H_

#include <cstddef>
#include <vector>

#include "coordinator/program/wait_causes.h"

namespace stagecoach {

struct PathStep {
  size_t worker = 0;
  TimedAction timed;
  StartCause start;  // why it did not start earlier: what it waited for is the step before
};

// The chain of actions and hops that the step's length is made of: each starts when the one before it has ended and
// its result has arrived, so the seconds of actions and hops add up to the makespan. In time order; where several are
// equally long, the one that changes workers least often near the end. Empty for an empty timeline. Pure.
std::vector<PathStep> CriticalPath(const Timeline& timeline);

// Where the path spends its time.
struct PathShares {
  std::vector<double> seconds_of_stage;  // [num_stages]
  double hop_seconds = 0;
};
PathShares SharesOf(const std::vector<PathStep>& path, uint32_t num_stages);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_CRITICAL_PATH_H_
