#include "coordinator/state.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {
namespace {

absl::Status CheckIs(bool expected, bool is_there, const std::string& worker) {
  if (is_there == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("worker \"", worker, "\" ", expected ? "left, and was not there" : "joined, and was there"));
}

}  // namespace

absl::Status State::Check(const v1::JournalEntry& entry) const {
  if (entry.sequence() <= last_sequence_) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", entry.sequence(), " comes after entry ", last_sequence_));
  }
  if (entry.coordinator_term() < term_.value()) {
    return absl::FailedPreconditionError(absl::StrCat("entry ", entry.sequence(), " is of term ",
                                                      entry.coordinator_term(), ", older than ", term_.value()));
  }
  switch (entry.fact_case()) {
    case v1::JournalEntry::kCoordinatorStarted:
      return absl::OkStatus();
    case v1::JournalEntry::kWorkerJoined:
      return CheckIs(false, fleet_.contains(WorkerId(entry.worker_joined().worker())), entry.worker_joined().worker());
    case v1::JournalEntry::kWorkerLeft:
      return CheckIs(true, fleet_.contains(WorkerId(entry.worker_left().worker())), entry.worker_left().worker());
    case v1::JournalEntry::kJobsForgotten:
      return Check(entry.jobs_forgotten());
    case v1::JournalEntry::kCostsMeasured:
      return absl::OkStatus();
    default:  // about one job
      break;
  }
  const auto found = jobs_.find(JobId(JobOfEntry(entry)));
  if (found != jobs_.end()) return CheckEntry(entry, found->second);
  if (entry.fact_case() == v1::JournalEntry::kJobSubmitted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("entry ", entry.sequence(), " is about job \"", JobOfEntry(entry), "\", which was never submitted"));
}

void State::Apply(const v1::JournalEntry& entry) {
  last_sequence_ = entry.sequence();
  term_ = CoordinatorTerm(entry.coordinator_term());
  switch (entry.fact_case()) {
    case v1::JournalEntry::kCoordinatorStarted:
      return;
    case v1::JournalEntry::kWorkerJoined:
      fleet_.insert(WorkerId(entry.worker_joined().worker()));
      return;
    case v1::JournalEntry::kWorkerLeft:
      fleet_.erase(WorkerId(entry.worker_left().worker()));
      return;
    case v1::JournalEntry::kJobsForgotten:
      return Apply(entry.jobs_forgotten());
    case v1::JournalEntry::kCostsMeasured:
      return costs_.Apply(entry.costs_measured());
    default:
      return ApplyToOneJob(entry);
  }
}

void State::ApplyToOneJob(const v1::JournalEntry& entry) {
  const JobId id(JobOfEntry(entry));
  JobRecord& job = jobs_[id];
  job.id = id;
  ApplyToJob(entry, job);
  // A plan that was made for a forgotten job of the same name is none of this one's attempts.
  if (entry.has_job_submitted()) job.progress.planning_attempt = entry.sequence();
  if (HasEnded(job.history.state)) {
    active_jobs_.erase(id);
    ended_jobs_.emplace(job.history.ended_at, id);
  } else {
    active_jobs_.insert(id);
  }
}

absl::Status State::Check(const v1::JobsForgotten& forgotten) const {
  for (const std::string& job : forgotten.jobs()) {
    const auto found = jobs_.find(JobId(job));
    if (found != jobs_.end() && HasEnded(found->second.history.state)) continue;
    return absl::FailedPreconditionError(absl::StrCat("job \"", job, "\" is forgotten, and has not ended"));
  }
  return absl::OkStatus();
}

void State::Apply(const v1::JobsForgotten& forgotten) {
  forgotten_epoch_ = std::max(forgotten_epoch_, Epoch(forgotten.epoch()));
  for (const std::string& job : forgotten.jobs()) {
    const auto found = jobs_.find(JobId(job));
    ended_jobs_.erase({found->second.history.ended_at, found->first});
    jobs_.erase(found);
  }
}

std::vector<WorkerId> State::AwaitedWorkers() const {
  std::vector<WorkerId> awaited;
  if (fleet_awaited_until_ == absl::InfiniteDuration()) return awaited;
  for (const WorkerId& worker : fleet_) {
    if (!workers_.contains(worker)) awaited.push_back(worker);
  }
  return awaited;
}

const WorkerRecord* State::FindWorker(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &workers_.at(found->second);
}

void State::Observe(const ObserveFact& fact) {
  std::visit([this](const auto& observed) { Observe(observed); }, fact.fact);
}

void State::Observe(const WorkerChanged& fact) {
  WorkerRecord& worker = workers_[fact.worker.id];
  if (worker.session.has_value()) sessions_.erase(*worker.session);
  worker = fact.worker;
  if (worker.session.has_value()) sessions_[*worker.session] = worker.id;
}

void State::Observe(const WorkerForgotten& fact) {
  const auto found = workers_.find(fact.worker);
  if (found == workers_.end()) return;
  if (found->second.session.has_value()) sessions_.erase(*found->second.session);
  workers_.erase(found);
}

void State::Observe(const ProgressChanged& fact) {
  const auto found = jobs_.find(fact.job);
  if (found == jobs_.end()) return;
  JobProgress& progress = found->second.progress;
  const bool same_members = progress.members == fact.progress.members;
  if (!same_members && progress.members != nullptr) {
    for (const MemberId& member : *progress.members) {
      const auto worker = workers_.find(member.worker);
      if (worker != workers_.end() && worker->second.job == fact.job) worker->second.job.reset();
    }
  }
  progress = fact.progress;
  if (same_members || progress.members == nullptr) return;
  for (const MemberId& member : *progress.members) {
    const auto worker = workers_.find(member.worker);
    if (worker != workers_.end() && worker->second.incarnation == member.incarnation) worker->second.job = fact.job;
  }
}

uint64_t NextSequence(const State& state, const v1::JournalEntry& entry) {
  constexpr uint64_t kLeap = uint64_t{1} << 20;
  return state.last_sequence() + (entry.has_coordinator_started() ? kLeap : 1);
}

JobDecision::Surroundings SurroundingsOf(absl::Duration now, const State& state) {
  return {.now = now, .term = state.term(), .options = state.options(), .costs = state.costs()};
}

}  // namespace stagecoach
