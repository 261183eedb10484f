#ifndef STAGECOACH_COORDINATOR_JOBS_JOB_END_H_
#define STAGECOACH_COORDINATOR_JOBS_JOB_END_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// SUCCEEDED or CANCELLED, when nothing runs: the members are released, and the queue is looked at again.
void EndJob(JobDecision& decision, v1::JobState state, const std::string& reason, const std::string& message);
// CANCELLED while something runs: the epoch ends, and members are told to abort.
void AbortJob(JobDecision& decision, const std::string& reason, const std::string& message);
// FAILED: likewise.
void FailJob(JobDecision& decision, const FailureCause& cause);
// For a reason that is no member's own.
void FailJob(JobDecision& decision, const std::string& reason, const absl::Status& status);
// Back to the queue, before anything was trained.
void RequeueJob(JobDecision& decision, const std::string& message);

// To one member that may not have heard that the epoch has ended.
void SendAbort(JobDecision& decision, WorkerRank rank, const std::string& reason);

// ABORTED, UNAVAILABLE and CANCELLED are what peers of a failed worker see, so with these the epoch ends at once, but
// the job fails only once every member has answered and no session breaks, or the grace is over, or the cause is known.
bool OnWorkerFailure(JobDecision& decision, WorkerRank rank, const v1::WorkerFailure& failure);
bool OnAborted(JobDecision& decision, WorkerRank rank);
// Its session broke, and the grace is not over: if the epoch is ending, this may be why.
void OnMemberSuspect(JobDecision& decision, WorkerRank rank);
// `run`: see CauseOfLoss. A job that has no epoch yet goes back to the queue instead.
void OnMemberLost(JobDecision& decision, WorkerRank rank, const absl::Status& why,
                  const std::optional<v1::RunState>& run);
// It wants to end after the step under way; a job that has no more steps to run ends first.
void OnMemberLeaving(JobDecision& decision, WorkerRank rank);
// The phase has lasted for too long. An epoch that is ending for a cause that nobody knows waits, once more, for the
// lease of a member that has fallen silent and has not answered.
void OnPhaseDeadline(JobDecision& decision, const Workers& workers);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_JOB_END_H_
