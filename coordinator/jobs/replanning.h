#ifndef STAGECOACH_COORDINATOR_JOBS_REPLANNING_H_
#define STAGECOACH_COORDINATOR_JOBS_REPLANNING_H_

#include "absl/status/statusor.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// The specification with what `plan` decided written into it, so that planning it again, on the same workers, gives the
// same stages and the same order of execution. Not for an order that was searched: see LowerAgain. Errors of
// BuildModelGraph. Pure.
absl::StatusOr<v1::JobSpec> SpecOfSameCut(const v1::JobSpec& spec, const v1::Plan& plan);

// Whether the stages have the same layers and workers, and the same order of execution.
bool IsSameCut(const v1::Plan& a, const v1::Plan& b);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_REPLANNING_H_
