#include "coordinator/jobs/requests.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/step.h"

namespace stagecoach {
namespace {

absl::Status Refused(const JobDecision& decision, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("job ", decision.job().id.value(), " ", why));
}

// A member has failed, or all steps are done.
bool EndsByItself(const JobDecision& decision) {
  if (decision.job().progress.phase == Phase::kAborting) return true;
  return decision.history().state != v1::JOB_STATE_PAUSED &&
         decision.history().last_commit.step() >= decision.spec().training().steps();
}

// Whether the job has, or is about to have, a step worth a checkpoint.
bool HasTrained(const JobDecision& decision) {
  return decision.history().last_commit.step() > 0 || decision.job().progress.phase == Phase::kTraining;
}

}  // namespace

absl::Status CancelJob(JobDecision& decision) {
  const v1::JobState state = decision.history().state;
  if (state == v1::JOB_STATE_CANCELLING) return absl::OkStatus();
  if (HasEnded(state)) return Refused(decision, absl::StrCat("has already ended: ", JobStateName(state)));
  if (EndsByItself(decision)) return Refused(decision, "is about to end by itself");
  if (state == v1::JOB_STATE_QUEUED || state == v1::JOB_STATE_PREPARING || !HasTrained(decision)) {
    AbortJob(decision, kReasonCancelRequested, "cancelled before a step was complete");
    return absl::OkStatus();
  }
  decision.ChangeState(v1::JOB_STATE_CANCELLING, kReasonCancelRequested, "ends with a checkpoint");
  if (decision.progress().phase == Phase::kPaused) StartNextStep(decision);
  return absl::OkStatus();
}

absl::Status PauseJob(JobDecision& decision) {
  const v1::JobState state = decision.history().state;
  if (state == v1::JOB_STATE_PAUSED) return absl::OkStatus();
  if (state != v1::JOB_STATE_RUNNING && state != v1::JOB_STATE_RECOVERING) {
    return Refused(decision, absl::StrCat("is ", JobStateName(state), "; only a running job can be paused"));
  }
  if (EndsByItself(decision)) return Refused(decision, "is about to end by itself");
  decision.ChangeState(v1::JOB_STATE_PAUSED, kReasonPauseRequested,
                       absl::StrCat("the workers keep the state of step ", decision.history().last_commit.step(),
                                    " or of the step under way"));
  return absl::OkStatus();
}

absl::Status ResumeJob(JobDecision& decision) {
  const v1::JobState state = decision.history().state;
  if (state != v1::JOB_STATE_PAUSED) return Refused(decision, absl::StrCat("is ", JobStateName(state), ", not paused"));
  switch (decision.progress().phase) {
    case Phase::kPaused:
      decision.ChangeState(v1::JOB_STATE_RUNNING, kReasonTraining, "resumed");
      StartNextStep(decision);
      break;
    case Phase::kTraining:  // the step that was under way still is
    case Phase::kEvaluating:
    case Phase::kMakingDirectory:
    case Phase::kWritingShards:
    case Phase::kWritingManifest:
    case Phase::kAborting:
      decision.ChangeState(v1::JOB_STATE_RUNNING, kReasonTraining, "resumed");
      break;
    default:
      decision.ChangeState(v1::JOB_STATE_RECOVERING, kReasonRecovering, "resumed");
  }
  return absl::OkStatus();
}

absl::Status CreateCheckpoint(JobDecision& decision) {
  const v1::JobState state = decision.history().state;
  if (HasEnded(state)) return Refused(decision, absl::StrCat("has already ended: ", JobStateName(state)));
  if (EndsByItself(decision) || state == v1::JOB_STATE_CANCELLING)
    return Refused(decision, "is about to end by itself");
  if (!HasTrained(decision)) return Refused(decision, "has trained no step that a checkpoint could keep");
  if (decision.job().progress.phase == Phase::kPaused) {
    AwaitCheckpoint(decision);
  } else {
    decision.progress().checkpoint_due = true;
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
