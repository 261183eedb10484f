#include "coordinator/jobs/step.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/checkpoint.h"
#include "coordinator/jobs/checkpoint_times.h"
#include "coordinator/jobs/evaluation.h"
#include "coordinator/jobs/finish.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/learning_rate.h"
#include "coordinator/jobs/step_report.h"
#include "coordinator/jobs/verdict.h"
#include "formats/text_corpus.h"

namespace stagecoach {
namespace {

// Of the gradients of the step after the last committed one.
double LossScale(const JobHistory& history) {
  return history.last_commit.step() == 0 ? 1.0 : history.last_commit.next_loss_scale();
}

void RunTrainingStep(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  const Step step(decision.history().last_commit.step() + 1);
  const StepBatch batch = BatchOfStep(decision.job(), step.value());
  v1::CoordinatorMessage message;
  v1::RunStep& run = *message.mutable_run_step();
  run.set_step(step.value());
  run.set_first_sample(batch.first_sample);
  run.mutable_micro_batch_samples()->Add(batch.micro_batches.samples.begin(), batch.micro_batches.samples.end());
  run.mutable_loss_weight()->Add(batch.micro_batches.loss_weight.begin(), batch.micro_batches.loss_weight.end());
  run.set_loss_scale(LossScale(decision.history()));
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    run.set_program_hash(progress.plan->planned.programs[rank].content_hash());
    decision.Send(WorkerRank(rank), message);
  }
  decision.EnterPhase(Phase::kTraining);
  progress.step_in_flight = step;
  progress.step_started = progress.run_ordered = decision.now();
}

std::vector<std::shared_ptr<const v1::StepPrepared>> TakeVotes(JobDecision& decision) {
  std::vector<std::shared_ptr<const v1::StepPrepared>> votes;
  for (MemberProgress& member : decision.progress().said) votes.push_back(std::exchange(member.vote, nullptr));
  return votes;
}

void AppendCommit(JobDecision& decision, const v1::CommitRecord& record, v1::StepEvent event) {
  v1::JournalEntry entry;
  v1::StepCommitted& committed = *entry.mutable_step_committed();
  committed.set_job(decision.job().id.value());
  committed.set_epoch(decision.history().epoch.value());
  *committed.mutable_record() = record;
  event.set_validation_follows(EvaluationIsDue(decision.job(), record.step()));
  *committed.mutable_event() = std::move(event);
  decision.Append(std::move(entry));
}

void FollowCommit(JobDecision& decision) {
  const uint64_t step = decision.history().last_commit.step();
  if (decision.history().consecutive_skips >= kMaxConsecutiveSkips) {
    FailJob(decision, kReasonLossNotFinite,
            absl::InvalidArgumentError(
                absl::StrCat("the gradients of ", kMaxConsecutiveSkips, " steps in a row, the last of them ", step,
                             ", were not finite; lower optimizer.lr or set training.max_grad_norm")));
  } else {
    GoOnAfterLastStep(decision);
  }
}

void CommitStepInFlight(JobDecision& decision) {
  const StepBatch batch = BatchOfStep(decision.job(), decision.progress().step_in_flight.value());
  const v1::JobSpec& spec = decision.spec();
  VerdictInput input;
  input.step = decision.progress().step_in_flight.value();
  input.votes = TakeVotes(decision);
  input.samples = batch.micro_batches.samples;
  input.loss_scale = LossScale(decision.history());
  input.max_grad_norm = spec.training().max_grad_norm();
  input.learning_rate = LearningRateOfStep(spec.lr_scheduler(), spec.optimizer().lr(), input.step);
  input.num_updates_before = decision.history().last_commit.num_updates();
  const absl::StatusOr<v1::CommitRecord> record = DecideVerdict(input);
  if (!record.ok()) {
    FailJob(decision, kReasonWorkerFailed, record.status());
    return;
  }
  const StepMeasurement measurement = {
      .tokens = batch.num_samples * spec.training().seq_len(),
      .seconds = absl::ToDoubleSeconds(decision.now() - decision.progress().step_started)};
  AppendCommit(decision, *record, ReportStep(*record, *decision.history().plan, input.votes, measurement));
  decision.Add(StepMeasured{.job = decision.job().id,
                            .step = Step(input.step),
                            .begin = decision.progress().step_started,
                            .end = decision.now(),
                            .votes = std::move(input.votes)});
  NoteCheckpointDue(decision);
  const bool snapshot = SnapshotIsDue(decision);
  SendCommit(decision, snapshot);
  if (snapshot) BeginCheckpoint(decision, /*from_snapshot=*/true);
  FollowCommit(decision);
}

}  // namespace

StepBatch BatchOfStep(const JobRecord& job, uint64_t step) {
  const v1::TrainingSpec& training = job.history.spec->training();
  const StepSamples samples = SamplesOfStep(step, job.progress.plan->num_train_samples, training.global_batch_size());
  return {samples.first_sample, samples.num_samples,
          DivideSamples(samples.num_samples, samples.num_samples, job.history.plan->num_micro_batches(),
                        training.micro_batch_size())};
}

bool HasValidation(const JobPlan& plan) {
  return plan.num_validation_samples > 0 && !plan.planned.evaluation_programs.empty();
}

bool IsLastStep(const JobRecord& job, uint64_t step) {
  return step >= job.history.spec->training().steps() || job.history.state == v1::JOB_STATE_CANCELLING;
}

void SendCommit(JobDecision& decision, bool snapshot) {
  v1::CoordinatorMessage message;
  const v1::CommitRecord& record = decision.history().last_commit;
  *message.mutable_commit_step()->mutable_record() = record;
  message.mutable_commit_step()->set_want_digests(IsLastStep(decision.job(), record.step()));
  message.mutable_commit_step()->set_snapshot(snapshot);
  decision.progress().commit_sent = Step(record.step());
  decision.SendToAll(message);
}

void GoOnAfterLastStep(JobDecision& decision) {
  const uint64_t step = decision.history().last_commit.step();
  if (step > 0 && EvaluationIsDue(decision.job(), step)) {
    StartEvaluation(decision);
  } else {
    StartNextStep(decision);
  }
}

void StartNextStep(JobDecision& decision) {
  const bool is_paused = decision.history().state == v1::JOB_STATE_PAUSED;
  if (!is_paused && IsLastStep(decision.job(), decision.history().last_commit.step())) {
    FinishTraining(decision);
  } else if (EndForLeaver(decision)) {
    return;
  } else if (MustAwaitCheckpoint(decision)) {
    AwaitCheckpoint(decision);
  } else if (is_paused) {
    decision.EnterPhase(Phase::kPaused);
  } else {
    RunTrainingStep(decision);
  }
}

bool OnStepPrepared(JobDecision& decision, WorkerRank rank, const v1::StepPrepared& message) {
  const JobProgress& progress = decision.job().progress;
  if (progress.phase != Phase::kTraining || message.step() != progress.step_in_flight.value()) return false;
  if (decision.said(rank).vote != nullptr) return false;
  decision.said(rank).vote = std::make_shared<const v1::StepPrepared>(message);
  decision.said(rank).answered_at = decision.now();
  if (decision.AllMembers([](const MemberProgress& member) { return member.vote != nullptr; })) {
    CommitStepInFlight(decision);
  }
  return true;
}

bool OnStepApplied(JobDecision& decision, WorkerRank rank, const v1::StepApplied& message) {
  if (decision.progress().phase == Phase::kAborting) return false;
  const auto& applied = decision.said(rank).applied;
  if (message.step() > decision.history().last_commit.step()) return false;
  if (applied != nullptr && message.step() <= applied->step()) return false;
  decision.said(rank).applied = std::make_shared<const v1::StepApplied>(message);
  if (decision.progress().phase == Phase::kFinishing) FinishTraining(decision);
  return true;
}

}  // namespace stagecoach
