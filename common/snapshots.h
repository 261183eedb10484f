#ifndef STAGECOACH_COMMON_SNAPSHOTS_H_
#define STAGECOACH_COMMON_SNAPSHOTS_H_

#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Whether the job's workers keep room for a copy of their state, from which checkpoints are written behind training.
// The planner counts it, the worker allocates it, and the coordinator asks for copies only then.
inline bool TakesSnapshots(const v1::CheckpointSpec& spec) {
  return spec.async() && (spec.interval_steps() > 0 || spec.interval_seconds() > 0);
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_SNAPSHOTS_H_
