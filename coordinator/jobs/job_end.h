#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_END_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_END_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// How long the cause may come after its consequences: a worker whose peer has failed often reports that it was cut off
// before the peer's own report arrives.
inline constexpr absl::Duration kRootCauseGrace = absl::Seconds(2);

// Appends the end, stops what the members still do when `abort`, releases them, and looks at the queue again.
void EndJob(JobDecision& decision, v1::JobState state, const std::string& reason, const std::string& message,
            bool abort);

// FAILED for a reason that is no member's own.
void FailJob(JobDecision& decision, const std::string& reason, const absl::Status& status);

// The epoch is over. ABORTED, UNAVAILABLE and CANCELLED are what peers of a failed worker see, so with these the job
// fails only once every member has answered, or the grace is over, or the cause is known.
bool OnWorkerFailure(JobDecision& decision, WorkerRank rank, const v1::WorkerFailure& failure);
bool OnAborted(JobDecision& decision, WorkerRank rank);
// While a job is being planned it goes back to the queue instead.
void OnMemberLost(JobDecision& decision, WorkerRank rank, const absl::Status& why);
// The grace may be over.
bool OnAbortingTick(JobDecision& decision);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_END_H_
