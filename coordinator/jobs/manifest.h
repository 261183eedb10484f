#ifndef STAGECOACH_COORDINATOR_JOBS_MANIFEST_H_
#define STAGECOACH_COORDINATOR_JOBS_MANIFEST_H_

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/checkpoint.pb.h"

namespace stagecoach {

// The manifest of the checkpoint in the making, from what every member said about its shard. INTERNAL: a parameter is
// in no shard, or a tensor is not what its stage had when it applied the step. INVALID_ARGUMENT: see AddShards. Pure.
absl::StatusOr<v1::CheckpointManifest> BuildManifest(const JobRecord& job, CoordinatorTerm term);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_MANIFEST_H_
