#include "coordinator/jobs/step_report.h"

#include <algorithm>

namespace stagecoach {
namespace {

double Busy(const v1::BusySeconds& seconds) {
  return seconds.forward() + seconds.recompute() + seconds.backward_input() + seconds.backward_weight() +
         seconds.optimizer() + seconds.other();
}

v1::StepEvent EventOfRecord(const v1::CommitRecord& record) {
  v1::StepEvent event;
  event.set_step(record.step());
  event.set_loss(record.loss());
  event.set_grad_norm(record.grad_norm());
  event.set_learning_rate(record.learning_rate());
  event.set_loss_scale(record.loss_scale());
  event.set_skipped(record.verdict() == v1::VERDICT_SKIP);
  return event;
}

}  // namespace

v1::StepEvent ReportStep(const v1::CommitRecord& record, const v1::Plan& plan,
                         const std::vector<std::shared_ptr<const v1::StepPrepared>>& votes,
                         const StepMeasurement& measurement) {
  v1::StepEvent event = EventOfRecord(record);
  event.set_tokens(measurement.tokens);
  event.set_step_seconds(measurement.seconds);
  const bool measured = measurement.seconds > 0;
  if (measured) event.set_tokens_per_second(static_cast<double>(measurement.tokens) / measurement.seconds);

  std::vector<double> utilization;  // [num_workers]
  double sum = 0;
  for (const auto& vote : votes) {
    // The two clocks differ, so that a worker may seem busy for longer than the step took.
    utilization.push_back(measured ? std::clamp(Busy(vote->busy_seconds()) / measurement.seconds, 0.0, 1.0) : 0.0);
    sum += utilization.back();
  }
  if (measured) event.set_bubble_ratio(1 - sum / static_cast<double>(votes.size()));
  for (const v1::StagePlan& stage : plan.stages()) {
    event.add_stage_utilization(stage.worker_rank() < utilization.size() ? utilization[stage.worker_rank()] : 0.0);
  }
  return event;
}

v1::StepEvent EventOfStep(const v1::StepCommitted& committed, const v1::JobSpec& spec) {
  if (committed.has_event()) return committed.event();
  v1::StepEvent event = EventOfRecord(committed.record());
  const bool has_validation = !spec.data().validation().empty() || spec.data().validation_fraction() > 0;
  event.set_validation_follows(has_validation && IsEvaluatedStep(spec, event.step()));
  return event;
}

bool IsEvaluatedStep(const v1::JobSpec& spec, uint64_t step) {
  const v1::TrainingSpec& training = spec.training();
  if (training.validation_interval() == 0) return false;
  return step % training.validation_interval() == 0 || step == training.steps();
}

}  // namespace stagecoach
