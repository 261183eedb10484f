#include "coordinator/jobs/finish.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/failure_cause.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/step.h"

namespace stagecoach {
namespace {

void EndWithCheckpoint(JobDecision& decision) {
  const std::string& directory = decision.history().checkpoints.back().directory();
  if (decision.history().state == v1::JOB_STATE_CANCELLING) {
    EndJob(decision, v1::JOB_STATE_CANCELLED, kReasonCancelRequested,
           absl::StrCat("cancelled after step ", decision.history().last_commit.step(), "; checkpoint in ", directory));
  } else {
    EndJob(decision, v1::JOB_STATE_SUCCEEDED, kReasonCompleted, absl::StrCat("checkpoint in ", directory));
  }
}

bool HasCheckpointOfLastStep(const JobHistory& history) {
  return !history.checkpoints.empty() && history.checkpoints.back().step() == history.last_commit.step();
}

std::optional<WorkerRank> FindLeaver(JobDecision& decision) {
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    if (decision.said(WorkerRank(rank)).leaving) return WorkerRank(rank);
  }
  return std::nullopt;
}

// Members have the state after the last step, and do what they are told.
bool CanKeepLastStep(const JobDecision& decision) {
  switch (decision.job().progress.phase) {
    case Phase::kTraining:
    case Phase::kEvaluating:
    case Phase::kPaused:
    case Phase::kMakingDirectory:
    case Phase::kWritingShards:
    case Phase::kWritingManifest:
      return decision.history().last_commit.step() > 0;
    default:
      return false;
  }
}

void EndWithoutLeaver(JobDecision& decision, WorkerRank leaver) {
  absl::Status why = absl::UnavailableError("it has left");
  if (HasCheckpointOfLastStep(decision.history())) {
    why = absl::UnavailableError(absl::StrCat("it has left; checkpoint of step ", decision.history().last_commit.step(),
                                              " in ", decision.history().checkpoints.back().directory()));
  }
  FailJob(decision, CauseOfLoss(decision.job(), leaver, why, std::nullopt));
}

}  // namespace

void FinishTraining(JobDecision& decision) {
  const uint64_t step = decision.history().last_commit.step();
  if (HasCheckpointOfLastStep(decision.history())) return EndWithCheckpoint(decision);
  if (decision.job().progress.phase != Phase::kFinishing) decision.EnterPhase(Phase::kFinishing);
  // In an epoch that began after the step nobody has been asked for the digests of its state.
  if (step > 0 && decision.job().progress.commit_sent.value() != step) SendCommit(decision, /*snapshot=*/false);
  const bool all_applied = decision.AllMembers([step](const MemberProgress& member) {
    return step == 0 || (member.applied != nullptr && member.applied->step() == step);
  });
  if (!all_applied || decision.job().progress.checkpoint.stage != Phase::kNone) return;
  decision.ChangeState(decision.history().state, kReasonWritingCheckpoint, absl::StrCat("of step ", step));
  AwaitCheckpoint(decision);
}

bool EndForLeaver(JobDecision& decision) {
  const std::optional<WorkerRank> leaver = FindLeaver(decision);
  if (!leaver.has_value()) return false;
  if (!HasEpoch(decision.progress())) {
    RequeueJob(decision, absl::StrCat(MemberName(decision.job(), *leaver), " has left"));
  } else if (CanKeepLastStep(decision) && !HasCheckpointOfLastStep(decision.history())) {
    AwaitCheckpoint(decision);
  } else {
    EndWithoutLeaver(decision, *leaver);
  }
  return true;
}

void OnCheckpointEnded(JobDecision& decision, const absl::Status& status) {
  const JobHistory& history = decision.history();
  const Phase phase = decision.job().progress.phase;
  if (phase == Phase::kFinishing) return FinishTraining(decision);
  if (!WaitsForCheckpoint(phase)) return;
  const bool was_of_last_step = decision.job().progress.checkpoint.record.step() == history.last_commit.step();
  if (status.ok() || !was_of_last_step) return StartNextStep(decision);
  const bool is_over = history.state != v1::JOB_STATE_PAUSED && IsLastStep(decision.job(), history.last_commit.step());
  if (is_over) return FailJob(decision, kReasonCheckpointFailed, status);
  if (const std::optional<WorkerRank> leaver = FindLeaver(decision)) return EndWithoutLeaver(decision, *leaver);
  StartNextStep(decision);
}

}  // namespace stagecoach
