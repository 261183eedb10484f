#ifndef STAGECOACH_COORDINATOR_DESCRIPTIONS_H_
#define STAGECOACH_COORDINATOR_DESCRIPTIONS_H_

#include "absl/time/time.h"
#include "coordinator/state.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// In the order of submission, without spec, plan and placement. Pure.
v1::ListJobsResponse ListJobs(const State& state);
// By name, lost ones too. Pure.
v1::ListWorkersResponse ListWorkers(const State& state, absl::Duration now);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_DESCRIPTIONS_H_
