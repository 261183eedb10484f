#ifndef STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_
#define STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Stages of each worker that a schedule is made for; 1 for names that are none.
uint32_t DefaultVirtualStages(absl::string_view schedule);

// Stages of each worker: what the specification says, or for auto (0) what its schedule is made for. With the schedule
// auto as well the planner decides; it is 1 here.
uint32_t VirtualStagesOf(const v1::ParallelismSpec& parallelism);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_
