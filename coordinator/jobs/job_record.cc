#include "coordinator/jobs/job_record.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/step_report.h"

namespace stagecoach {
namespace {

absl::Status Inconsistent(const JobRecord& job, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id.value(), ": ", what));
}

absl::Status CheckCommit(const v1::StepCommitted& commit, const JobRecord& job) {
  if (HasEnded(job.history.state)) return Inconsistent(job, "a step was committed after the job's end");
  // A record without its event was learned from a worker, maybe after the end of the epoch in which it was made, or is
  // what a compacted journal still has: steps before it may be unknown.
  const bool is_too_late = commit.has_event() && EpochHasEnded(job.history);
  if (commit.epoch() != job.history.epoch.value() || is_too_late) {
    return Inconsistent(
        job, absl::StrCat("a step was committed in epoch ", commit.epoch(), ", and the job's epoch ",
                          job.history.epoch.value(), EpochHasEnded(job.history) ? " has ended" : " is current"));
  }
  const uint64_t next = job.history.last_commit.step() + 1;
  if (commit.has_event() ? commit.record().step() != next : commit.record().step() < next) {
    return Inconsistent(job, absl::StrCat("step ", commit.record().step(), " was committed after step ",
                                          job.history.last_commit.step()));
  }
  return absl::OkStatus();
}

absl::Status CheckEpochEnd(const v1::EpochEnded& ended, const JobRecord& job) {
  if (ended.epoch() == job.history.epoch.value() && job.history.ended_epoch < job.history.epoch) {
    return absl::OkStatus();
  }
  return Inconsistent(job, absl::StrCat("epoch ", ended.epoch(), " ended in epoch ", job.history.epoch.value()));
}

void ApplySubmission(const v1::JournalEntry& entry, JobHistory& history) {
  const v1::JobSubmitted& submitted = entry.job_submitted();
  history.submitted_at = entry.sequence();
  history.submitted = entry.time();
  history.spec = std::make_shared<const v1::JobSpec>(submitted.spec());
  history.threads_are_automatic = submitted.spec().resources().threads_per_worker() == 0;
  history.micro_batch_size_is_automatic = submitted.spec().training().micro_batch_size() == 0;
  history.submission_id = submitted.submission_id();
  history.spec_digest = submitted.spec_digest();
  history.epoch_floor = Epoch(submitted.epoch_floor());
  history.state = v1::JOB_STATE_QUEUED;
  history.reason = kReasonWaitingForWorkers;
  history.message = "submitted";
}

void SetThreads(uint32_t threads, JobHistory& history) {
  if (!history.threads_are_automatic || history.spec->resources().threads_per_worker() == threads) return;
  auto spec = std::make_shared<v1::JobSpec>(*history.spec);
  spec->mutable_resources()->set_threads_per_worker(threads);
  history.spec = std::move(spec);
}

void SetMicroBatchSize(uint64_t size, JobHistory& history) {
  if (!history.micro_batch_size_is_automatic || history.spec->training().micro_batch_size() == size) return;
  auto spec = std::make_shared<v1::JobSpec>(*history.spec);
  spec->mutable_training()->set_micro_batch_size(size);
  history.spec = std::move(spec);
}

void ApplyState(const v1::JournalEntry& entry, JobHistory& history) {
  const v1::JobStateChanged& change = entry.job_state_changed();
  history.state = change.state();
  history.reason = change.reason();
  history.message = change.message();
  if (change.has_root_cause()) history.root_cause = std::make_shared<const v1::RootCause>(change.root_cause());
  // It has not begun, and is placed again.
  if (history.state == v1::JOB_STATE_QUEUED) {
    SetThreads(0, history);
    SetMicroBatchSize(0, history);
  }
  if (!HasEnded(history.state)) return;
  history.order = nullptr;  // nothing is lowered any more, and ended jobs are kept by the hundred
  history.ended = entry.time();
  history.ended_at = entry.sequence();
}

void ApplyEpoch(const v1::JournalEntry& entry, JobHistory& history) {
  history.epoch = Epoch(entry.epoch_started().placement().epoch());
  history.plan = std::make_shared<const v1::Plan>(entry.epoch_started().plan());
  history.placement = std::make_shared<const v1::Placement>(entry.epoch_started().placement());
  history.order = nullptr;
  if (entry.epoch_started().has_order()) {
    history.order = std::make_shared<const v1::ComputeTable>(entry.epoch_started().order());
  }
  const uint32_t threads = entry.epoch_started().threads_per_worker();
  if (threads != 0) SetThreads(threads, history);
  const uint64_t micro_batch_size = entry.epoch_started().micro_batch_size();
  if (micro_batch_size != 0) SetMicroBatchSize(micro_batch_size, history);
  const v1::DataIdentity& data = entry.epoch_started().data();
  history.data = {.bytes = data.bytes(), .digest = data.digest()};
  if (history.num_epochs++ == 0) history.started = entry.time();
}

absl::Status CheckResumption(const v1::JobResumed& resumed, const JobRecord& job) {
  if (job.history.state != v1::JOB_STATE_PREPARING || !IsAtBeginning(job.history)) {
    return Inconsistent(job, absl::StrCat("resumed from step ", resumed.last_commit().step(), " after it had begun"));
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(uint64_t step, const JobRecord& job) {
  if (HasEnded(job.history.state)) return Inconsistent(job, "a checkpoint after the job's end");
  if (step > job.history.last_commit.step()) {
    return Inconsistent(job, absl::StrCat("a checkpoint of step ", step, ", which is not committed"));
  }
  return absl::OkStatus();
}

void ApplyResumption(const v1::JobResumed& resumed, JobHistory& history) {
  history.resumed = std::make_shared<const v1::JobResumed>(resumed);
  history.last_commit = resumed.last_commit();
  history.evaluated_step = resumed.last_commit().step();
  history.checkpoints.push_back(resumed.checkpoint());
}

void ApplyCommit(const v1::StepCommitted& committed, JobHistory& history) {
  history.last_commit = committed.record();
  history.last_step = std::make_shared<const v1::StepEvent>(EventOfStep(committed, *history.spec));
  history.consecutive_skips = history.last_commit.verdict() == v1::VERDICT_SKIP ? history.consecutive_skips + 1 : 0;
}

}  // namespace

std::optional<WorkerRank> RankOf(const JobRecord& job, const WorkerId& worker, Incarnation incarnation) {
  if (job.progress.members == nullptr) return std::nullopt;
  const std::vector<MemberId>& members = *job.progress.members;
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].worker == worker && members[rank].incarnation == incarnation) return WorkerRank(rank);
  }
  return std::nullopt;
}

bool HasEpoch(const JobProgress& progress) {
  return progress.phase != Phase::kNone && progress.phase != Phase::kProfiling && progress.phase != Phase::kPlanning;
}

bool WaitsForCheckpoint(Phase phase) {
  return phase == Phase::kMakingDirectory || phase == Phase::kWritingShards || phase == Phase::kWritingManifest;
}

bool EpochHasEnded(const JobHistory& history) {
  return history.epoch.value() > 0 && history.ended_epoch == history.epoch;
}

Epoch FenceEpoch(const JobHistory& history) {
  return EpochHasEnded(history) ? Epoch(history.epoch.value() + 1) : history.epoch;
}

Epoch NextEpoch(const JobHistory& history) {
  return Epoch(std::max(FenceEpoch(history), history.epoch_floor).value() + 1);
}

void ApplyToJob(const v1::JournalEntry& entry, JobRecord& job) {
  JobHistory& history = job.history;
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobSubmitted:
      ApplySubmission(entry, history);
      break;
    case v1::JournalEntry::kJobStateChanged:
      ApplyState(entry, history);
      break;
    case v1::JournalEntry::kEpochStarted:
      ApplyEpoch(entry, history);
      break;
    case v1::JournalEntry::kEpochEnded:
      history.ended_epoch = Epoch(entry.epoch_ended().epoch());
      break;
    case v1::JournalEntry::kStepCommitted:
      ApplyCommit(entry.step_committed(), history);
      break;
    case v1::JournalEntry::kEvaluationCompleted:
      history.evaluated_step = entry.evaluation_completed().step();
      break;
    case v1::JournalEntry::kCheckpointCompleted:
      history.checkpoints.push_back(entry.checkpoint_completed());
      break;
    case v1::JournalEntry::kJobResumed:
      ApplyResumption(entry.job_resumed(), history);
      break;
    case v1::JournalEntry::kCheckpointFailed:
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::kWorkerJoined:
    case v1::JournalEntry::kWorkerLeft:
    case v1::JournalEntry::kJobsForgotten:
    case v1::JournalEntry::kCostsMeasured:
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
      if (Epoch(entry.epoch_started().placement().epoch()) >= NextEpoch(job.history)) return absl::OkStatus();
      return Inconsistent(job, absl::StrCat("epoch ", entry.epoch_started().placement().epoch(), " after epoch ",
                                            job.history.epoch.value()));
    case v1::JournalEntry::kEpochEnded:
      return CheckEpochEnd(entry.epoch_ended(), job);
    case v1::JournalEntry::kStepCommitted:
      return CheckCommit(entry.step_committed(), job);
    case v1::JournalEntry::kEvaluationCompleted:
      if (entry.evaluation_completed().step() == job.history.last_commit.step()) return absl::OkStatus();
      return Inconsistent(job, "an evaluation of a step that is not the last committed one");
    case v1::JournalEntry::kCheckpointCompleted:
      return CheckCheckpoint(entry.checkpoint_completed().step(), job);
    case v1::JournalEntry::kCheckpointFailed:  // of a step that a compacted journal need not have
      return HasEnded(job.history.state) ? Inconsistent(job, "a checkpoint after the job's end") : absl::OkStatus();
    case v1::JournalEntry::kJobResumed:
      return CheckResumption(entry.job_resumed(), job);
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::kWorkerJoined:
    case v1::JournalEntry::kWorkerLeft:
    case v1::JournalEntry::kJobsForgotten:
    case v1::JournalEntry::kCostsMeasured:
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
    case v1::JournalEntry::kEpochEnded:
      return entry.epoch_ended().job();
    case v1::JournalEntry::kStepCommitted:
      return entry.step_committed().job();
    case v1::JournalEntry::kEvaluationCompleted:
      return entry.evaluation_completed().job();
    case v1::JournalEntry::kCheckpointCompleted:
      return entry.checkpoint_completed().job();
    case v1::JournalEntry::kCheckpointFailed:
      return entry.checkpoint_failed().job();
    case v1::JournalEntry::kJobResumed:
      return entry.job_resumed().job();
    case v1::JournalEntry::kCoordinatorStarted:
    case v1::JournalEntry::kWorkerJoined:
    case v1::JournalEntry::kWorkerLeft:
    case v1::JournalEntry::kJobsForgotten:
    case v1::JournalEntry::kCostsMeasured:
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
  if (job.history.root_cause != nullptr) *status.mutable_root_cause() = *job.history.root_cause;
  return status;
}

v1::Job DescribeJob(const JobRecord& job) {
  const JobHistory& history = job.history;
  v1::Job description;
  *description.mutable_status() = StatusOf(job);
  *description.mutable_spec() = *history.spec;
  if (history.plan != nullptr) *description.mutable_plan() = *history.plan;
  if (history.placement != nullptr) *description.mutable_placement() = *history.placement;
  if (history.last_step != nullptr) *description.mutable_last_step() = *history.last_step;
  description.set_recoveries(static_cast<uint32_t>(std::max<uint64_t>(history.num_epochs, 1) - 1));
  if (!history.checkpoints.empty()) {
    const v1::CheckpointCompleted& newest = history.checkpoints.back();
    description.set_checkpoint_directory(newest.directory());
    description.set_checkpoint_step(newest.step());
    description.set_digest(newest.digest());
    description.set_state_digest(newest.state_digest());
  }
  description.set_submission_id(history.submission_id);
  *description.mutable_submitted() = history.submitted;
  if (history.num_epochs > 0) *description.mutable_started() = history.started;
  if (HasEnded(history.state)) *description.mutable_ended() = history.ended;
  return description;
}

bool IsAtBeginning(const JobHistory& history) {
  return history.last_commit.step() == (history.resumed == nullptr ? 0 : history.resumed->last_commit().step());
}

uint64_t CheckpointedStep(const JobHistory& history) {
  return history.checkpoints.empty() ? 0 : history.checkpoints.back().step();
}

std::vector<uint32_t> StagesOf(const JobHistory& history, WorkerRank rank) {
  std::vector<uint32_t> stages;
  if (history.plan == nullptr) return stages;
  for (int stage = 0; stage < history.plan->stages_size(); ++stage) {
    if (history.plan->stages(stage).worker_rank() == rank.value()) stages.push_back(static_cast<uint32_t>(stage));
  }
  return stages;
}

}  // namespace stagecoach
