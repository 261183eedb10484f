#include "coordinator/jobs/recovery.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/epoch.h"
#include "coordinator/jobs/failure_cause.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/profiling.h"
#include "coordinator/jobs/replanning.h"

namespace stagecoach {
namespace {

// A job that runs says that it recovers; one that is paused or being cancelled still is, and recovers all the same.
void ShowRecovering(JobDecision& decision, const std::string& message) {
  const v1::JobState state = decision.history().state;
  if (state == v1::JOB_STATE_RUNNING || state == v1::JOB_STATE_RECOVERING) {
    decision.ChangeState(v1::JOB_STATE_RECOVERING, kReasonRecovering, message);
  }
}

void AwaitMembers(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  auto members = std::make_shared<std::vector<MemberId>>();
  for (const v1::Member& member : decision.history().placement->members()) {
    members->push_back({WorkerId(member.worker()), Incarnation(member.incarnation()), member.memory_bytes()});
  }
  progress.said.assign(members->size(), MemberProgress{});
  progress.members = std::move(members);
  decision.EnterPhase(Phase::kReattaching);
  ShowRecovering(decision, absl::StrCat("the coordinator was restarted; waiting for ", decision.num_members(),
                                        " worker(s) to dial"));
}

// What a worker says is believed no further than it can be true.
bool CanFollow(const v1::CommitRecord& record, const JobDecision& decision) {
  const bool has_verdict = record.verdict() == v1::VERDICT_APPLY || record.verdict() == v1::VERDICT_SKIP;
  const bool is_step = record.step() > decision.history().last_commit.step() &&
                       record.step() <= decision.spec().training().steps() && record.num_updates() <= record.step();
  const bool has_factors = std::isfinite(record.clip_factor()) && std::isfinite(record.learning_rate()) &&
                           std::isfinite(record.next_loss_scale()) && record.next_loss_scale() > 0;
  return has_verdict && is_step && has_factors;
}

// A record that is newer than the journal's: whoever applied it has had it from a coordinator that had journalled it.
void TakeOverCommit(JobDecision& decision, const v1::HeldJob& held) {
  if (held.job() != decision.job().id.value() || !CanFollow(held.last_commit(), decision)) return;
  v1::JournalEntry entry;
  v1::StepCommitted& committed = *entry.mutable_step_committed();
  committed.set_job(decision.job().id.value());
  committed.set_epoch(decision.history().epoch.value());
  *committed.mutable_record() = held.last_commit();
  decision.Append(std::move(entry));
}

// Whether a worker that holds this can come to the state after the last committed step.
bool CanContinue(const JobRecord& job, const v1::HeldJob& held) {
  const uint64_t step = job.history.last_commit.step();
  if (IsAtBeginning(job.history)) return true;
  if (held.job() != job.id.value()) return false;
  return held.applied_step() == step || (held.applied_step() + 1 == step && held.prepared_step() == step);
}

// UNAVAILABLE: what a member has of the job is not enough. Of one that was not asked nothing is known yet.
absl::Status CheckHeld(const JobDecision& decision, WorkerRank rank) {
  const auto& held = decision.job().progress.said[rank.value()].held;
  if (held == nullptr || CanContinue(decision.job(), *held)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("it has come back without the state of step ",
                                             decision.history().last_commit.step(), "; it holds step ",
                                             held->applied_step(), " of job \"", held->job(), "\""));
}

void Replan(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  StartPlanning planning{.job = decision.job().id,
                         .attempt = ++progress.planning_attempt,
                         .spec = decision.spec(),
                         .workers = {},
                         .same_cut_as = decision.history().plan,
                         .order = decision.history().order};
  // The times that the plan was made with are still known.
  const bool was_measured = decision.history().plan->measured_costs();
  const std::shared_ptr<const LayerCosts> costs = was_measured ? CostsOfMembers(decision) : nullptr;
  for (const MemberId& member : *progress.members) {
    planning.workers.push_back({.memory_bytes = member.memory_bytes, .measured = costs});
  }
  decision.EnterPhase(Phase::kReplanning);
  decision.Add(std::move(planning));
}

// FAILED_PRECONDITION: the files hold something else than when the job began; it would go on with other samples, and
// the bits would be nobody's.
absl::Status CheckSameData(const CorpusIdentity& before, const CorpusIdentity& now) {
  if (before.digest.empty() || before == now) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the data is not what it was when the job began: ", before.bytes, " bytes with digest ", before.digest, " then, ",
      now.bytes, " bytes with digest ", now.digest, " now; bring the files back, or submit a new job"));
}

void BeginEpoch(JobDecision& decision) {
  ShowRecovering(decision, absl::StrCat("goes on after step ", decision.history().last_commit.step()));
  StartEpoch(decision);
}

// All members are there.
void Recover(JobDecision& decision) {
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    const absl::Status status = CheckHeld(decision, WorkerRank(rank));
    if (status.ok()) continue;
    return FailJob(decision, CauseOfLoss(decision.job(), WorkerRank(rank), status, std::nullopt));
  }
  if (decision.progress().plan == nullptr) return Replan(decision);
  BeginEpoch(decision);
}

}  // namespace

void OnRestarted(JobDecision& decision) {
  const JobHistory& history = decision.history();
  if (history.state == v1::JOB_STATE_QUEUED) return;
  if (history.state == v1::JOB_STATE_PREPARING) return RequeueJob(decision, "the coordinator was restarted");
  // Also when the epoch had ended: the worker that was the cause does not come back, or fails again.
  AwaitMembers(decision);
}

void OnMemberReturned(JobDecision& decision, WorkerRank rank, const v1::Hello& hello) {
  JobProgress& progress = decision.progress();
  const v1::HeldJob& held = hello.held();
  NoteMember(decision, rank, hello);
  MemberProgress& member = decision.said(rank);
  switch (progress.phase) {
    case Phase::kNone:
    case Phase::kPlanning:  // it was told nothing yet
      return;
    case Phase::kProfiling:
      AskToMeasureAgain(decision, rank);
      return;
    case Phase::kAborting:
      // That this one was gone is what its peers have reported, if nobody knows better.
      member.held = std::make_shared<const v1::HeldJob>(held);
      return Recover(decision);
    case Phase::kReattaching:
      if (member.attached) return;
      member.attached = true;
      member.held = std::make_shared<const v1::HeldJob>(held);
      TakeOverCommit(decision, held);
      if (decision.AllMembers([](const MemberProgress& one) { return one.attached; })) Recover(decision);
      return;
    default:
      member.held = std::make_shared<const v1::HeldJob>(held);
      if (progress.phase != Phase::kReplanning) Recover(decision);
  }
}

bool OnReplanned(JobDecision& decision, const PlanReady& input) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kReplanning || input.attempt != progress.planning_attempt) return false;
  if (!input.plan.ok()) {
    FailJob(decision, input.failure_reason, input.plan.status());
  } else if (absl::Status same = CheckSameData(decision.history().data, (*input.plan)->data); !same.ok()) {
    FailJob(decision, kReasonDataChanged, same);
  } else if (!IsSameCut((*input.plan)->planned.plan, *decision.history().plan)) {
    FailJob(decision, kReasonPlanningFailed,
            absl::InternalError("this coordinator cuts the job otherwise than the one before it"));
  } else if (absl::Status status = CheckPlan(**input.plan, decision.spec(), decision.num_members()); !status.ok()) {
    FailJob(decision, kReasonPlanningFailed, status);
  } else {
    progress.plan = *input.plan;
    BeginEpoch(decision);
  }
  return true;
}

}  // namespace stagecoach
