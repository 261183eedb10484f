#ifndef STAGECOACH_COORDINATOR_JOBS_RECOVERY_H_
#define STAGECOACH_COORDINATOR_JOBS_RECOVERY_H_

#include "common/ids.h"
#include "coordinator/jobs/input.h"
#include "coordinator/jobs/job_decision.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// A job goes on after a coordinator, or a session, was lost: its members dial and say what they hold; a step that one
// of them knows to be committed is; then a new epoch begins with the same members, partition and schedule, and training
// goes on after the last committed step, or with what was left to do after it.

// The coordinator was restarted: every job that has not ended, once.
void OnRestarted(JobDecision& decision);

// A member has dialled, for the first time since a restart, or again.
void OnMemberReturned(JobDecision& decision, WorkerRank rank, const v1::Hello& hello);

// The plan that was made again. False: at the wrong time; nothing has changed.
bool OnReplanned(JobDecision& decision, const PlanReady& input);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_JOBS_RECOVERY_H_
