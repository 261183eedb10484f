#include "coordinator/jobs/job_end.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {
namespace {

bool HasEpoch(const JobProgress& progress) {
  return progress.phase != Phase::kNone && progress.phase != Phase::kPlanning;
}

bool HasAnswered(const MemberProgress& member) { return member.aborted || member.lost; }

bool IsConsequence(const v1::WorkerFailure& failure) {
  const auto code = static_cast<absl::StatusCode>(failure.code());
  return code == absl::StatusCode::kAborted || code == absl::StatusCode::kUnavailable ||
         code == absl::StatusCode::kCancelled;
}

void SendAborts(JobDecision& decision, const std::string& reason) {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_reason(reason);
  *message.mutable_abort()->mutable_last_commit() = decision.history().last_commit;
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    if (!HasAnswered(decision.said(WorkerRank(rank)))) decision.Send(WorkerRank(rank), message);
  }
}

void ReleaseMembers(JobDecision& decision) {
  v1::CoordinatorMessage message;
  message.mutable_release();
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    if (!decision.said(WorkerRank(rank)).lost) decision.Send(WorkerRank(rank), message);
  }
}

// "worker w1 (rank 1, stage 1)"
std::string MemberAndStages(const JobDecision& decision, WorkerRank rank) {
  std::string stages;
  if (decision.history().plan != nullptr) {
    const v1::Plan& plan = *decision.history().plan;
    for (int stage = 0; stage < plan.stages_size(); ++stage) {
      if (plan.stages(stage).worker_rank() == rank.value()) absl::StrAppend(&stages, ", stage ", stage);
    }
  }
  return absl::StrCat("worker ", decision.job().progress.members->at(rank.value()).worker.value(), " (rank ",
                      rank.value(), stages, ")");
}

std::string DescribeFailure(const JobDecision& decision, WorkerRank rank, const v1::WorkerFailure& failure) {
  std::string text = absl::StrCat(MemberAndStages(decision, rank), " failed");
  if (failure.step() > 0) absl::StrAppend(&text, " in step ", failure.step());
  if (!failure.action().empty()) absl::StrAppend(&text, " at ", failure.action());
  absl::StrAppend(&text, ": ", absl::StatusCodeToString(static_cast<absl::StatusCode>(failure.code())), ": ",
                  failure.message());
  return text;
}

void ConcludeAborting(JobDecision& decision) {
  const RootCause cause = *decision.progress().consequence;
  EndJob(decision, v1::JOB_STATE_FAILED, cause.reason, cause.message, /*abort=*/false);
}

// Gives the workers back. The attempt stays, so that a plan of an earlier attempt is known when it comes.
void ClearProgress(JobDecision& decision) {
  const uint64_t attempt = decision.progress().planning_attempt;
  decision.progress() = JobProgress{};
  decision.progress().planning_attempt = attempt;
}

void RequeueJob(JobDecision& decision, const std::string& message) {
  ClearProgress(decision);
  decision.ChangeState(v1::JOB_STATE_QUEUED, kReasonWaitingForWorkers, message);
  decision.Add(RequestTick{});
}

}  // namespace

void EndJob(JobDecision& decision, v1::JobState state, const std::string& reason, const std::string& message,
            bool abort) {
  JobProgress& progress = decision.progress();
  // A committed step is published even when its validation loss will never be known.
  if (progress.held_event.has_value()) decision.Publish(*progress.held_event);
  decision.ChangeState(state, reason, message);
  if (HasEpoch(progress)) {
    if (abort && progress.phase != Phase::kAborting) SendAborts(decision, message);
    ReleaseMembers(decision);
  }
  ClearProgress(decision);
  decision.Add(RequestTick{});
}

void FailJob(JobDecision& decision, const std::string& reason, const absl::Status& status) {
  EndJob(decision, v1::JOB_STATE_FAILED, reason, std::string(status.message()), /*abort=*/true);
}

bool OnWorkerFailure(JobDecision& decision, WorkerRank rank, const v1::WorkerFailure& failure) {
  JobProgress& progress = decision.progress();
  if (HasAnswered(decision.said(rank))) return false;
  decision.said(rank).aborted = true;
  const RootCause cause = {rank, kReasonWorkerFailed, DescribeFailure(decision, rank, failure)};
  if (!IsConsequence(failure)) {
    EndJob(decision, v1::JOB_STATE_FAILED, cause.reason, cause.message, /*abort=*/true);
    return true;
  }
  if (progress.phase != Phase::kAborting) {
    SendAborts(decision, cause.message);
    progress.phase = Phase::kAborting;
    progress.consequence = cause;
    progress.abort_deadline = decision.now() + kRootCauseGrace;
  }
  if (decision.AllMembers(HasAnswered)) ConcludeAborting(decision);
  return true;
}

bool OnAborted(JobDecision& decision, WorkerRank rank) {
  if (decision.progress().phase != Phase::kAborting || HasAnswered(decision.said(rank))) return false;
  decision.said(rank).aborted = true;
  if (decision.AllMembers(HasAnswered)) ConcludeAborting(decision);
  return true;
}

void OnMemberLost(JobDecision& decision, WorkerRank rank, const absl::Status& why) {
  decision.said(rank).lost = true;
  const std::string message = absl::StrCat(MemberAndStages(decision, rank), " was lost after step ",
                                           decision.history().last_commit.step(), ": ", why.ToString());
  if (decision.progress().phase == Phase::kPlanning) {
    RequeueJob(decision, message);
  } else {
    EndJob(decision, v1::JOB_STATE_FAILED, kReasonWorkerLost, message, /*abort=*/true);
  }
}

bool OnAbortingTick(JobDecision& decision) {
  const JobProgress& progress = decision.job().progress;
  if (progress.phase != Phase::kAborting || decision.now() < progress.abort_deadline) return false;
  ConcludeAborting(decision);
  return true;
}

}  // namespace stagecoach
