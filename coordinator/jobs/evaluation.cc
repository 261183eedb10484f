#include "coordinator/jobs/evaluation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/micro_batches.h"
#include "coordinator/jobs/step.h"
#include "coordinator/jobs/step_report.h"
#include "coordinator/jobs/verdict.h"

namespace stagecoach {
namespace {

MicroBatches BatchesOfRun(const JobRecord& job) {
  return DivideSamples(job.progress.evaluation.num_samples, job.progress.plan->num_validation_samples,
                       job.progress.plan->planned.evaluation_programs[0].num_micro_batches(),
                       job.history.spec->training().micro_batch_size());
}

void RunEvaluation(JobDecision& decision, uint64_t first_sample) {
  JobProgress& progress = decision.progress();
  const std::vector<v1::StageProgram>& programs = progress.plan->planned.evaluation_programs;
  const uint64_t capacity = programs[0].num_micro_batches() * decision.spec().training().micro_batch_size();
  progress.evaluation.first_sample = first_sample;
  progress.evaluation.num_samples = std::min(capacity, progress.plan->num_validation_samples - first_sample);
  progress.evaluation.loss_parts.clear();
  progress.run_ordered = decision.now();
  for (MemberProgress& member : progress.said) member.evaluated = false;

  const MicroBatches batches = BatchesOfRun(decision.job());
  v1::CoordinatorMessage message;
  v1::RunStep& run = *message.mutable_run_step();
  run.set_step(decision.history().last_commit.step());
  run.set_evaluation(true);
  run.set_first_sample(first_sample);
  run.mutable_micro_batch_samples()->Add(batches.samples.begin(), batches.samples.end());
  run.mutable_loss_weight()->Add(batches.loss_weight.begin(), batches.loss_weight.end());
  run.set_loss_scale(1);
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    run.set_program_hash(programs[rank].content_hash());
    decision.Send(WorkerRank(rank), message);
  }
}

void AppendLoss(JobDecision& decision) {
  v1::JournalEntry entry;
  v1::EvaluationCompleted& completed = *entry.mutable_evaluation_completed();
  completed.set_job(decision.job().id.value());
  completed.set_step(decision.history().last_commit.step());
  completed.set_validation_loss(decision.progress().evaluation.loss);
  decision.Append(std::move(entry));
}

void EndRun(JobDecision& decision) {
  JobProgress& progress = decision.progress();
  const absl::StatusOr<double> loss =
      SumLossParts(progress.evaluation.loss_parts, BatchesOfRun(decision.job()).samples);
  if (!loss.ok()) {
    FailJob(decision, kReasonWorkerFailed, loss.status());
    return;
  }
  progress.evaluation.loss += *loss;
  const uint64_t next = progress.evaluation.first_sample + progress.evaluation.num_samples;
  const bool cancelling = decision.history().state == v1::JOB_STATE_CANCELLING;
  if (next < progress.plan->num_validation_samples && !cancelling) {
    RunEvaluation(decision, next);
    return;
  }
  if (next >= progress.plan->num_validation_samples) AppendLoss(decision);
  StartNextStep(decision);
}

}  // namespace

bool EvaluationIsDue(const JobRecord& job, uint64_t step) {
  if (!HasValidation(*job.progress.plan) || job.history.state == v1::JOB_STATE_CANCELLING) return false;
  return step > job.history.evaluated_step && IsEvaluatedStep(*job.history.spec, step);
}

void StartEvaluation(JobDecision& decision) {
  decision.EnterPhase(Phase::kEvaluating);
  decision.progress().evaluation = EvaluationInFlight{};
  RunEvaluation(decision, 0);
}

bool OnEvaluationDone(JobDecision& decision, WorkerRank rank, const v1::EvaluationDone& message) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kEvaluating || decision.said(rank).evaluated) return false;
  if (message.step() != decision.history().last_commit.step()) return false;
  if (message.first_sample() != progress.evaluation.first_sample) return false;
  decision.said(rank).evaluated = true;
  decision.said(rank).answered_at = decision.now();
  progress.evaluation.loss_parts.insert(progress.evaluation.loss_parts.end(), message.loss_parts().begin(),
                                        message.loss_parts().end());
  if (decision.AllMembers([](const MemberProgress& member) { return member.evaluated; })) EndRun(decision);
  return true;
}

}  // namespace stagecoach
