#include "coordinator/journal_compaction.h"

#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {

void JournalCompaction::Count(const v1::JournalEntry& entry) {
  if (entry.has_coordinator_started() || entry.has_costs_measured()) return;
  if (entry.has_jobs_forgotten()) return CountForgotten(entry);
  if (entry.has_worker_joined()) {
    joined_[WorkerId(entry.worker_joined().worker())] = entry.sequence();
    return;
  }
  if (entry.has_worker_left()) {
    joined_.erase(WorkerId(entry.worker_left().worker()));
    num_unneeded_ += 2;
    return;
  }
  Job& job = jobs_[JobId(JobOfEntry(entry))];
  ++job.num_entries;
  if (entry.has_step_committed()) ++job.num_steps;
  if (entry.has_epoch_started()) job.last_epoch = entry.sequence();
  if (entry.has_job_state_changed()) job.has_ended = HasEnded(entry.job_state_changed().state());
  if (entry.has_checkpoint_completed()) job.checkpoint_steps.insert(entry.checkpoint_completed().step());
}

void JournalCompaction::CountForgotten(const v1::JournalEntry& entry) {
  for (const std::string& name : entry.jobs_forgotten().jobs()) {
    const JobId id(name);
    num_unneeded_ += jobs_[id].num_entries;
    jobs_.erase(id);
    forgotten_[id] = entry.sequence();
  }
  last_forgotten_ = entry.sequence();
}

bool JournalCompaction::IsOfForgottenJob(const v1::JournalEntry& entry) const {
  const auto found = forgotten_.find(JobId(JobOfEntry(entry)));
  return found != forgotten_.end() && entry.sequence() < found->second;
}

bool JournalCompaction::IsOfFleet(const v1::JournalEntry& entry) const {
  const auto found = joined_.find(WorkerId(entry.worker_joined().worker()));
  return entry.has_worker_joined() && found != joined_.end() && found->second == entry.sequence();
}

uint64_t JournalCompaction::NumDropped(const Job& job) const {
  const uint64_t kept = job.has_ended ? limits_.steps_of_ended_job : limits_.steps_of_active_job;
  return job.num_steps > kept ? job.num_steps - kept : 0;
}

bool JournalCompaction::IsWorthwhile() const {
  uint64_t dropped = num_unneeded_;
  for (const auto& [id, job] : jobs_) dropped += NumDropped(job);
  return dropped >= limits_.least_dropped;
}

std::optional<v1::JournalEntry> JournalCompaction::KeepStep(const v1::JournalEntry& entry, Job& job) const {
  const uint64_t number = ++job.num_steps_seen;
  const uint64_t num_dropped = NumDropped(job);
  const uint64_t step = entry.step_committed().record().step();
  // The step before the first that is whole, and those that a checkpoint needs, stay without their events.
  if (number < num_dropped && !job.checkpoint_steps.contains(step)) return std::nullopt;
  job.last_kept_step = step;
  v1::JournalEntry kept = entry;
  if (number <= num_dropped) kept.mutable_step_committed()->clear_event();
  return kept;
}

v1::JournalEntry JournalCompaction::KeepEpoch(const v1::JournalEntry& entry, const Job& job) {
  v1::JournalEntry kept = entry;
  if (job.has_ended || entry.sequence() != job.last_epoch) kept.mutable_epoch_started()->clear_order();
  return kept;
}

std::optional<v1::JournalEntry> JournalCompaction::Keep(const v1::JournalEntry& entry) {
  if (entry.has_coordinator_started() || entry.has_costs_measured()) return entry;
  if (entry.has_worker_joined() || entry.has_worker_left()) {
    return IsOfFleet(entry) ? std::optional(entry) : std::nullopt;
  }
  if (entry.has_jobs_forgotten()) {
    // The newest tells the highest epoch.
    if (entry.sequence() != last_forgotten_) return std::nullopt;
    v1::JournalEntry kept = entry;
    kept.mutable_jobs_forgotten()->clear_jobs();
    return kept;
  }
  if (IsOfForgottenJob(entry)) return std::nullopt;
  Job& job = jobs_.at(JobId(JobOfEntry(entry)));
  if (entry.has_step_committed()) return KeepStep(entry, job);
  if (entry.has_epoch_started()) return KeepEpoch(entry, job);
  if (entry.has_evaluation_completed() && entry.evaluation_completed().step() != job.last_kept_step) {
    return std::nullopt;
  }
  if (entry.has_job_state_changed()) {
    const v1::JobState state = entry.job_state_changed().state();
    if (job.has_ended && state == job.last_state) return std::nullopt;
    job.last_state = state;
  }
  return entry;
}

}  // namespace stagecoach
