#include "coordinator/jobs/job_record.h"

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"

namespace stagecoach {
namespace {

absl::Status Inconsistent(const JobRecord& job, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id.value(), ": ", what));
}

absl::Status CheckCommit(const v1::StepCommitted& commit, const JobRecord& job) {
  if (HasEnded(job.history.state)) return Inconsistent(job, "a step was committed after the job's end");
  if (commit.epoch() != job.history.epoch.value()) {
    return Inconsistent(job, absl::StrCat("a step was committed in epoch ", commit.epoch(), ", not in the job's epoch ",
                                          job.history.epoch.value()));
  }
  if (commit.record().step() != job.history.last_commit.step() + 1) {
    return Inconsistent(job, absl::StrCat("step ", commit.record().step(), " was committed after step ",
                                          job.history.last_commit.step()));
  }
  return absl::OkStatus();
}

}  // namespace

void ApplyToJob(const v1::JournalEntry& entry, JobRecord& job) {
  JobHistory& history = job.history;
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobSubmitted:
      history.submitted_at = entry.sequence();
      history.spec = std::make_shared<const v1::JobSpec>(entry.job_submitted().spec());
      history.state = v1::JOB_STATE_QUEUED;
      history.reason = kReasonWaitingForWorkers;
      break;
    case v1::JournalEntry::kJobStateChanged:
      history.state = entry.job_state_changed().state();
      history.reason = entry.job_state_changed().reason();
      history.message = entry.job_state_changed().message();
      break;
    case v1::JournalEntry::kEpochStarted:
      history.epoch = Epoch(entry.epoch_started().placement().epoch());
      history.plan = std::make_shared<const v1::Plan>(entry.epoch_started().plan());
      history.placement = std::make_shared<const v1::Placement>(entry.epoch_started().placement());
      break;
    case v1::JournalEntry::kStepCommitted:
      history.last_commit = entry.step_committed().record();
      history.consecutive_skips = history.last_commit.verdict() == v1::VERDICT_SKIP ? history.consecutive_skips + 1 : 0;
      break;
    case v1::JournalEntry::kCheckpointCompleted:
      history.checkpoints.push_back(entry.checkpoint_completed());
      break;
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::FACT_NOT_SET:
      break;
  }
}

absl::Status CheckEntry(const v1::JournalEntry& entry, const JobRecord& job) {
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobSubmitted:
      return CheckTransition(job.history.state, v1::JOB_STATE_QUEUED);
    case v1::JournalEntry::kJobStateChanged:
      return CheckTransition(job.history.state, entry.job_state_changed().state());
    case v1::JournalEntry::kEpochStarted:
      if (entry.epoch_started().placement().epoch() > job.history.epoch.value()) return absl::OkStatus();
      return Inconsistent(job, absl::StrCat("epoch ", entry.epoch_started().placement().epoch(), " after epoch ",
                                            job.history.epoch.value()));
    case v1::JournalEntry::kStepCommitted:
      return CheckCommit(entry.step_committed(), job);
    case v1::JournalEntry::kCheckpointCompleted:
      if (entry.checkpoint_completed().step() == job.history.last_commit.step()) return absl::OkStatus();
      return Inconsistent(job, "a checkpoint of a step that is not the last committed one");
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::FACT_NOT_SET:
      break;
  }
  return Inconsistent(job, "an entry that is not about a job");
}

std::string JobOfEntry(const v1::JournalEntry& entry) {
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobSubmitted:
      return entry.job_submitted().job();
    case v1::JournalEntry::kJobStateChanged:
      return entry.job_state_changed().job();
    case v1::JournalEntry::kEpochStarted:
      return entry.epoch_started().job();
    case v1::JournalEntry::kStepCommitted:
      return entry.step_committed().job();
    case v1::JournalEntry::kCheckpointCompleted:
      return entry.checkpoint_completed().job();
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::FACT_NOT_SET:
      break;
  }
  return "";
}

v1::JobStatus StatusOf(const JobRecord& job) {
  v1::JobStatus status;
  status.set_job(job.id.value());
  status.set_state(job.history.state);
  status.set_reason(job.history.reason);
  status.set_message(job.history.message);
  status.set_step(job.history.last_commit.step());
  status.set_epoch(job.history.epoch.value());
  return status;
}

}  // namespace stagecoach
