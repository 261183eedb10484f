#ifndef STAGECOACH_COORDINATOR_JOBS_FAILURE_CAUSE_H_
#define STAGECOACH_COORDINATOR_JOBS_FAILURE_CAUSE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "coordinator/fleet/hang_verdict.h"
#include "coordinator/jobs/job_record.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// Why a job fails when a member of it is the cause: reason and message for people and scripts, and the root cause field
// by field. Pure.

// What a worker said about itself.
FailureCause CauseOfFailure(const JobRecord& job, WorkerRank rank, const v1::WorkerFailure& failure);

// What is known of one that is lost. `run`: where it was when it was last heard, in this epoch.
FailureCause CauseOfLoss(const JobRecord& job, WorkerRank rank, const absl::Status& why,
                         const std::optional<v1::RunState>& run);

FailureCause CauseOfHang(const JobRecord& job, const HangBlame& blame);

// "worker w1 (rank 1, stage 1)"
std::string MemberName(const JobRecord& job, WorkerRank rank);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_FAILURE_CAUSE_H_
