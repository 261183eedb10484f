#include "coordinator/jobs/job_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/fleet/hang_verdict.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/failure_cause.h"
#include "coordinator/jobs/finish.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/profiling.h"

namespace stagecoach {
namespace {

bool HasAnswered(const MemberProgress& member) { return member.aborted || member.lost; }

bool IsConsequence(const v1::WorkerFailure& failure) {
  const auto code = static_cast<absl::StatusCode>(failure.code());
  return code == absl::StatusCode::kAborted || code == absl::StatusCode::kUnavailable ||
         code == absl::StatusCode::kCancelled;
}

// Raises the epoch, durably, before anyone is told.
void EndEpoch(JobDecision& decision, const std::string& reason) {
  if (decision.history().epoch == Epoch() || EpochHasEnded(decision.history())) return;
  v1::JournalEntry entry;
  v1::EpochEnded& ended = *entry.mutable_epoch_ended();
  ended.set_job(decision.job().id.value());
  ended.set_epoch(decision.history().epoch.value());
  ended.set_reason(reason);
  decision.Append(std::move(entry));
  ForgetCheckpoint(decision);

  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    if (!HasAnswered(decision.said(WorkerRank(rank)))) SendAbort(decision, WorkerRank(rank), reason);
  }
}

// Gives the workers back. The numbers of attempts stay, so that what comes of an earlier one is known.
void ReleaseMembers(JobDecision& decision) {
  if (HasEpoch(decision.progress())) {
    v1::CoordinatorMessage message;
    message.mutable_release();
    for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
      if (!decision.said(WorkerRank(rank)).lost) decision.Send(WorkerRank(rank), message);
    }
  }
  EndProfiling(decision);
  ForgetCheckpoint(decision);
  JobProgress none;
  none.planning_attempt = decision.progress().planning_attempt;
  none.checkpoint.number = decision.progress().checkpoint.number;
  decision.progress() = std::move(none);
  decision.Add(RequestTick{});
}

// What the phase waits for from a member. Null: nothing.
const char* WhatIsMissing(const JobDecision& decision, WorkerRank rank) {
  const JobProgress& progress = decision.job().progress;
  const MemberProgress& member = progress.said[rank.value()];
  switch (progress.phase) {
    case Phase::kReattaching:
      return member.attached ? nullptr : "dialled again";
    case Phase::kPreparingStages:
      return member.prepared ? nullptr : "prepared its stages";
    case Phase::kConnectingPeers:
      return member.connected ? nullptr : "connected to its peers";
    case Phase::kFinishing:
      return member.applied != nullptr && member.applied->step() == decision.history().last_commit.step()
                 ? nullptr
                 : "applied the last step";
    case Phase::kWritingShards:
      return member.shard != nullptr || member.shard_failed ? nullptr : "written its shard of the checkpoint";
    default:
      return nullptr;
  }
}

// When the first lease ends of those that have not answered and are not heard any more. A host that is gone takes its
// session and its transfers away at once: the peers report what they see of it before its lease is over.
std::optional<absl::Duration> LeaseOfSilentMember(const JobDecision& decision, const Workers& workers) {
  std::optional<absl::Duration> first;
  const JobProgress& progress = decision.job().progress;
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    const auto worker = workers.find(progress.members->at(rank).worker);
    if (HasAnswered(progress.said[rank]) || worker == workers.end()) continue;
    const WorkerRecord& record = worker->second;
    const bool is_silent = decision.now() - record.last_seen > SilentAfter(decision.options().heartbeat_interval);
    if (!is_silent || record.deadline == absl::InfiniteDuration()) continue;
    first = std::min(first.value_or(record.deadline), record.deadline);
  }
  return first;
}

void ConcludeAborting(JobDecision& decision) {
  const FailureCause cause = *decision.progress().consequence;
  FailJob(decision, cause);
}

void OnAbortingDeadline(JobDecision& decision, const Workers& workers) {
  JobProgress& progress = decision.progress();
  const absl::Duration longest = progress.phase_began + decision.options().root_cause_grace + decision.options().lease;
  const std::optional<absl::Duration> lease_end = LeaseOfSilentMember(decision, workers);
  if (!lease_end.has_value() || *lease_end <= decision.now() || *lease_end > longest) return ConcludeAborting(decision);
  progress.deadline = *lease_end;
}

// Everyone has answered, and nobody knows of a cause. It may be a session that broke, which is noticed within the
// grace.
void ConcludeSoon(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  const absl::Duration end = progress.phase_began + decision.options().suspect_grace;
  if (decision.now() >= end) return ConcludeAborting(decision);
  progress.deadline = std::min(progress.deadline, end);
}

}  // namespace

void SendAbort(JobDecision& decision, WorkerRank rank, const std::string& reason) {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_reason(reason);
  *message.mutable_abort()->mutable_last_commit() = decision.history().last_commit;
  decision.Send(rank, std::move(message));
}

void EndJob(JobDecision& decision, v1::JobState state, const std::string& reason, const std::string& message) {
  decision.ChangeState(state, reason, message);
  ReleaseMembers(decision);
}

void AbortJob(JobDecision& decision, const std::string& reason, const std::string& message) {
  EndEpoch(decision, message);
  EndJob(decision, v1::JOB_STATE_CANCELLED, reason, message);
}

void FailJob(JobDecision& decision, const FailureCause& cause) {
  EndEpoch(decision, cause.message);
  decision.Fail(cause);
  ReleaseMembers(decision);
}

void FailJob(JobDecision& decision, const std::string& reason, const absl::Status& status) {
  FailJob(decision, {.reason = reason, .message = std::string(status.message()), .root_cause = {}});
}

void RequeueJob(JobDecision& decision, const std::string& message) {
  EndEpoch(decision, message);
  decision.ChangeState(v1::JOB_STATE_QUEUED, kReasonWaitingForWorkers, message);
  ReleaseMembers(decision);
}

bool OnWorkerFailure(JobDecision& decision, WorkerRank rank, const v1::WorkerFailure& failure) {
  JobProgress& progress = decision.progress();
  if (HasAnswered(decision.said(rank))) return false;
  // Of the epoch that the job is about to leave: its members lose each other one by one.
  if (progress.phase == Phase::kReattaching || progress.phase == Phase::kReplanning) return false;
  decision.said(rank).aborted = true;
  const FailureCause cause = CauseOfFailure(decision.job(), rank, failure);
  if (!IsConsequence(failure)) {
    FailJob(decision, cause);
    return true;
  }
  if (progress.phase != Phase::kAborting) {
    EndEpoch(decision, cause.message);
    decision.EnterPhase(Phase::kAborting);
    progress.consequence = cause;
  }
  if (decision.AllMembers(HasAnswered)) ConcludeSoon(decision);
  return true;
}

bool OnAborted(JobDecision& decision, WorkerRank rank) {
  if (decision.progress().phase != Phase::kAborting || HasAnswered(decision.said(rank))) return false;
  decision.said(rank).aborted = true;
  if (decision.AllMembers(HasAnswered)) ConcludeSoon(decision);
  return true;
}

void OnMemberSuspect(JobDecision& decision, WorkerRank rank) {
  if (decision.progress().phase != Phase::kAborting) return;
  // It comes back, and the job goes on, or it is lost, and the cause.
  decision.said(rank).aborted = false;
  decision.progress().deadline = absl::InfiniteDuration();
}

void OnMemberLost(JobDecision& decision, WorkerRank rank, const absl::Status& why,
                  const std::optional<v1::RunState>& run) {
  const FailureCause cause = CauseOfLoss(decision.job(), rank, why, run);
  decision.said(rank).lost = true;
  if (!HasEpoch(decision.progress())) {
    RequeueJob(decision, cause.message);
  } else {
    FailJob(decision, cause);
  }
}

void OnMemberLeaving(JobDecision& decision, WorkerRank rank) {
  decision.said(rank).leaving = true;
  switch (decision.progress().phase) {
    case Phase::kTraining:  // at the end of the step
    case Phase::kFinishing:
    case Phase::kMakingDirectory:
    case Phase::kWritingShards:
    case Phase::kWritingManifest:
    case Phase::kAborting:
      return;
    default:
      EndForLeaver(decision);
  }
}

void OnPhaseDeadline(JobDecision& decision, const Workers& workers) {
  if (decision.progress().phase == Phase::kAborting) return OnAbortingDeadline(decision, workers);
  if (decision.progress().phase == Phase::kProfiling) return OnProfilingLate(decision);
  const std::string time = absl::FormatDuration(decision.now() - decision.progress().phase_began);
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    const char* what = WhatIsMissing(decision, WorkerRank(rank));
    if (what == nullptr) continue;
    const absl::Status why = absl::DeadlineExceededError(absl::StrCat("it has not ", what, " in ", time));
    return FailJob(decision, CauseOfLoss(decision.job(), WorkerRank(rank), why, std::nullopt));
  }
  FailJob(decision, kReasonCheckpointFailed,
          absl::DeadlineExceededError(absl::StrCat("the checkpoint could not be written in ", time)));
}

}  // namespace stagecoach
