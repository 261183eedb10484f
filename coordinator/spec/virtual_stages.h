#ifndef STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_
#define STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_

#include <cstdint>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Stages of each worker: what the specification says, or for auto (0) what its schedule is made for.
uint32_t VirtualStagesOf(const v1::ParallelismSpec& parallelism);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_VIRTUAL_STAGES_H_
