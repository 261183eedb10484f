#include "coordinator/journal_compaction.h"

#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {

void JournalCompaction::Count(const v1::JournalEntry& entry) {
  if (entry.has_coordinator_started()) return;
  Job& job = jobs_[JobId(JobOfEntry(entry))];
  if (entry.has_step_committed()) ++job.num_steps;
  if (entry.has_job_state_changed()) job.has_ended = HasEnded(entry.job_state_changed().state());
  if (entry.has_checkpoint_completed()) job.checkpoint_steps.insert(entry.checkpoint_completed().step());
}

uint64_t JournalCompaction::NumDropped(const Job& job) const {
  const uint64_t kept = job.has_ended ? limits_.steps_of_ended_job : limits_.steps_of_active_job;
  return job.num_steps > kept ? job.num_steps - kept : 0;
}

bool JournalCompaction::IsWorthwhile() const {
  uint64_t dropped = 0;
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

std::optional<v1::JournalEntry> JournalCompaction::Keep(const v1::JournalEntry& entry) {
  if (entry.has_coordinator_started()) return entry;
  Job& job = jobs_.at(JobId(JobOfEntry(entry)));
  if (entry.has_step_committed()) return KeepStep(entry, job);
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
