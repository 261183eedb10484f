#ifndef STAGECOACH_COORDINATOR_RETENTION_H_
#define STAGECOACH_COORDINATOR_RETENTION_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "common/ids.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/state.h"

namespace stagecoach {

// Jobs that have ended are kept for people to look at, the newest of them: FleetOptions::keep_jobs.

// Forgets those that ended first. nullopt: there are not too many.
std::optional<Decision> ForgetJobs(const State& state);

// NOT_FOUND, and that the job may have been forgotten.
absl::Status UnknownJob(const JobId& job, const FleetOptions& options);

// NOT_FOUND: the resume token is of a forgotten job that had the same name.
absl::Status CheckToken(const JobRecord& job, uint64_t after_sequence, const FleetOptions& options);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_RETENTION_H_
