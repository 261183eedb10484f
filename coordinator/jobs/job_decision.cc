#include "coordinator/jobs/job_decision.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {
namespace {

// A run of the program has none: the hang verdict ends it.
absl::Duration TimeoutOf(Phase phase, const FleetOptions& options) {
  switch (phase) {
    case Phase::kNone:
    case Phase::kPlanning:
    case Phase::kReplanning:
    case Phase::kTraining:
    case Phase::kEvaluating:
    case Phase::kPaused:
      return absl::InfiniteDuration();
    case Phase::kReattaching:
      return options.reattach_timeout;
    case Phase::kProfiling:
      return options.profiling_timeout;
    case Phase::kAborting:
      return options.root_cause_grace;
    case Phase::kPreparingStages:
    case Phase::kConnectingPeers:
    case Phase::kFinishing:
    case Phase::kMakingDirectory:
    case Phase::kWritingShards:
    case Phase::kWritingManifest:
      return options.phase_timeout;
  }
  return absl::InfiniteDuration();
}

}  // namespace

void JobDecision::EnterPhase(Phase phase) {
  job_.progress.phase = phase;
  job_.progress.phase_began = now();
  job_.progress.deadline = now() + TimeoutOf(phase, options());
}

void JobDecision::Append(v1::JournalEntry entry) {
  STAGECOACH_CHECK(CheckEntry(entry, job_).ok());
  ApplyToJob(entry, job_);
  Add(AppendEntry{std::move(entry)});
}

void JobDecision::ChangeState(v1::JobState state, const std::string& reason, const std::string& message) {
  v1::JournalEntry entry;
  v1::JobStateChanged& change = *entry.mutable_job_state_changed();
  change.set_job(job_.id.value());
  change.set_state(state);
  change.set_reason(reason);
  change.set_message(message);
  Append(std::move(entry));
}

void JobDecision::Fail(const FailureCause& cause) {
  v1::JournalEntry entry;
  v1::JobStateChanged& change = *entry.mutable_job_state_changed();
  change.set_job(job_.id.value());
  change.set_state(v1::JOB_STATE_FAILED);
  change.set_reason(cause.reason);
  change.set_message(cause.message);
  if (!cause.root_cause.worker().empty()) *change.mutable_root_cause() = cause.root_cause;
  Append(std::move(entry));
}

void JobDecision::Send(WorkerRank rank, v1::CoordinatorMessage message) {
  const MemberId& member = job_.progress.members->at(rank.value());
  v1::Fence& fence = *message.mutable_fence();
  fence.set_job(job_.id.value());
  fence.set_epoch(FenceEpoch(job_.history).value());
  fence.set_incarnation(member.incarnation.value());
  fence.set_coordinator_term(term().value());
  Add(SendToWorker{member.worker, std::move(message)});
}

void JobDecision::SendToAll(const v1::CoordinatorMessage& message) {
  for (uint32_t rank = 0; rank < num_members(); ++rank) Send(WorkerRank(rank), message);
}

Decision JobDecision::Finish(std::string reason) && {
  Decision decision;
  decision.reason = absl::StrCat("job ", job_.id.value(), ": ", reason);
  decision.effects.reserve(effects_.size() + 1);
  decision.effects.push_back(ObserveFact{ProgressChanged{job_.id, std::move(job_.progress)}});
  std::move(effects_.begin(), effects_.end(), std::back_inserter(decision.effects));
  return decision;
}

}  // namespace stagecoach
