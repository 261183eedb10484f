#include "coordinator/metrics/run_metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/jobs/step_report.h"
#include "coordinator/metrics/entry_time.h"

namespace stagecoach {
namespace {

// What a stage does with its time: the values of label `state`.
enum Activity : size_t {
  kForward,
  kRecompute,
  kBackward,
  kWeightGrad,
  kOptimizer,
  kP2pWait,
  kDataWait,
  kOther,
  kEvaluation,
  kCheckpoint,
  kIdle,
};
constexpr std::array kActivityNames = {"forward",   "recompute", "backward",   "weight_grad", "optimizer", "p2p_wait",
                                       "data_wait", "other",     "evaluation", "checkpoint",  "idle"};
constexpr size_t kNumMeasured = kEvaluation;  // those that a vote tells

using Measured = std::array<double, kNumMeasured>;

Measured SecondsOf(const v1::BusySeconds& busy) {
  return {busy.forward(),   busy.recompute(), busy.backward_input(), busy.backward_weight(),
          busy.optimizer(), busy.p2p_wait(),  busy.data_wait(),      busy.other()};
}

std::string PrecisionName(v1::Precision precision) {
  constexpr absl::string_view kPrefix = "PRECISION_";
  const std::string& name = v1::Precision_Name(precision);
  return absl::AsciiStrToLower(name.substr(std::min(kPrefix.size(), name.size())));
}

// In which the stages' time is counted.
bool IsCounted(Phase phase) {
  return phase == Phase::kTraining || phase == Phase::kEvaluating || WaitsForCheckpoint(phase);
}

}  // namespace

RunMetrics::RunMetrics(MetricRegistry& registry, const JobRecord& job, const RunPast& past)
    : run_(job.id.value()),
      spec_(job.history.spec),
      series_(registry),
      state_series_(registry),
      plan_series_(registry),
      stage_series_(registry),
      step_(series_.Gauge("stagecoach_step", {run_})),
      steps_(series_.Counter("stagecoach_steps_total", {run_})),
      tokens_(series_.Counter("stagecoach_tokens_total", {run_})),
      skipped_(series_.Counter("stagecoach_skipped_steps_total", {run_, "not_finite"})),
      duration_(series_.Histogram("stagecoach_step_duration_seconds", {run_})) {
  static_assert(kActivityNames.size() == kNumActivities);
  const JobHistory& history = job.history;
  SetGauge("stagecoach_target_steps", static_cast<double>(spec_->training().steps()));
  for (const char* outcome : {"completed", "failed"}) series_.Counter("stagecoach_checkpoints_total", {run_, outcome});
  step_.Set(static_cast<double>(history.last_commit.step()));
  if (past.started_time > 0) {
    has_started_ = true;
    SetGauge("stagecoach_run_start_timestamp_seconds", past.started_time);
  }
  SetState(history.state);
  if (history.plan != nullptr) SetPlan(*history.plan);
  if (history.last_step != nullptr) SetStep(*history.last_step);
  if (past.last_step_time > 0) {
    last_step_ = &series_.Gauge("stagecoach_last_step_timestamp_seconds", {run_});
    last_step_->Set(past.last_step_time);
  }
  if (past.validation_loss.has_value()) SetGauge("stagecoach_validation_loss", *past.validation_loss);
  if (past.last_checkpoint_time > 0) {
    SetGauge("stagecoach_last_checkpoint_timestamp_seconds", past.last_checkpoint_time);
  }
  const uint64_t checkpointed = CheckpointedStep(history);
  if (checkpointed > 0) SetGauge("stagecoach_last_checkpoint_step", static_cast<double>(checkpointed));
}

void RunMetrics::OnEntry(const v1::JournalEntry& entry, const JobRecord& job) {
  const double time = UnixTimeOf(entry);
  switch (entry.fact_case()) {
    case v1::JournalEntry::kJobStateChanged:
      return OnStateChanged(job.history.state, time);
    case v1::JournalEntry::kEpochStarted:
      return SetPlan(*job.history.plan);
    case v1::JournalEntry::kStepCommitted:
      return OnStep(entry.step_committed(), time);
    case v1::JournalEntry::kEvaluationCompleted:
      return SetGauge("stagecoach_validation_loss", entry.evaluation_completed().validation_loss());
    case v1::JournalEntry::kCheckpointCompleted:
      return OnCheckpointCompleted(entry.checkpoint_completed().step(), time);
    case v1::JournalEntry::kCheckpointFailed:
      return series_.Counter("stagecoach_checkpoints_total", {run_, "failed"}).Increment();
    case v1::JournalEntry::kJobResumed:
      step_.Set(static_cast<double>(job.history.last_commit.step()));
      return SetGauge("stagecoach_last_checkpoint_step", static_cast<double>(CheckpointedStep(job.history)));
    default:
      return;
  }
}

void RunMetrics::SetState(v1::JobState state) {
  if (state == state_) return;
  state_ = state;
  state_series_.Clear();
  state_series_.Gauge("stagecoach_run_state", {run_, absl::AsciiStrToLower(JobStateName(state))}).Set(1);
}

// A run that was paused, or recovered, has not stood still for as long as its newest step is old.
void RunMetrics::OnStateChanged(v1::JobState state, double time) {
  const bool begins = state == v1::JOB_STATE_RUNNING && state_ != v1::JOB_STATE_RUNNING;
  SetState(state);
  if (!begins) return;
  if (!std::exchange(has_started_, true)) SetGauge("stagecoach_run_start_timestamp_seconds", time);
  if (last_step_ == nullptr) last_step_ = &series_.Gauge("stagecoach_last_step_timestamp_seconds", {run_});
  last_step_->Set(time);
}

void RunMetrics::SetPlan(const v1::Plan& plan) {
  plan_series_.Clear();
  const std::string precision = PrecisionName(spec_->training().precision());
  plan_series_.Gauge("stagecoach_run_info", {run_, spec_->model().architecture(), plan.schedule(), precision}).Set(1);
  SetGauge("stagecoach_partition_imbalance_ratio", plan.partition_imbalance_ratio());
  SetStageSeries(plan);
  for (int i = 0; i < plan.stages_size(); ++i) {
    const v1::StagePlan& stage = plan.stages(i);
    stage_series_.Gauge("stagecoach_stage_layers", {run_, absl::StrCat(i)})
        .Set(static_cast<double>(stage.last_layer() - stage.first_layer() + 1));
    stages_[static_cast<size_t>(i)].worker_rank = stage.worker_rank();
  }
}

// Counters go on over epochs of as many stages.
void RunMetrics::SetStageSeries(const v1::Plan& plan) {
  const auto num_stages = static_cast<size_t>(plan.stages_size());
  if (stages_.size() == num_stages) return;
  stage_series_.Clear();
  stages_.assign(num_stages, {});
  for (size_t i = 0; i < num_stages; ++i) {
    for (size_t activity = 0; activity < kNumActivities; ++activity) {
      stages_[i].seconds[activity] = &stage_series_.Counter("stagecoach_stage_busy_seconds_total",
                                                            {run_, absl::StrCat(i), kActivityNames[activity]});
    }
  }
}

void RunMetrics::SetStep(const v1::StepEvent& event) {
  if (of_step_.loss == nullptr) {
    of_step_ = {.loss = &series_.Gauge("stagecoach_loss", {run_}),
                .grad_norm = &series_.Gauge("stagecoach_grad_norm", {run_}),
                .learning_rate = &series_.Gauge("stagecoach_learning_rate", {run_}),
                .loss_scale = &series_.Gauge("stagecoach_loss_scale", {run_})};
  }
  step_.Set(static_cast<double>(event.step()));
  of_step_.loss->Set(event.loss());
  of_step_.grad_norm->Set(event.grad_norm());
  of_step_.learning_rate->Set(event.learning_rate());
  of_step_.loss_scale->Set(event.loss_scale());
  if (event.step_seconds() <= 0) return;
  SetCheckpointInterval(event.step_seconds());
  const size_t num_stages = std::min(stages_.size(), static_cast<size_t>(event.stage_utilization_size()));
  for (size_t i = 0; i < num_stages; ++i) {
    StageSeries& stage = stages_[i];
    if (stage.utilization == nullptr) {
      stage.utilization = &stage_series_.Gauge("stagecoach_utilization_ratio", {run_, absl::StrCat(i)});
      stage.bubble = &stage_series_.Gauge("stagecoach_bubble_ratio", {run_, absl::StrCat(i)});
    }
    const double utilization = event.stage_utilization(static_cast<int>(i));
    stage.utilization->Set(utilization);
    stage.bubble->Set(1 - utilization);
  }
}

void RunMetrics::SetCheckpointInterval(double step_seconds) {
  const v1::CheckpointSpec& spec = spec_->checkpoint();
  const double by_steps = static_cast<double>(spec.interval_steps()) * step_seconds;
  const double by_time = spec.interval_seconds();
  if (by_steps <= 0 && by_time <= 0) return;
  const double interval = by_steps > 0 && by_time > 0 ? std::min(by_steps, by_time) : std::max(by_steps, by_time);
  SetGauge("stagecoach_checkpoint_interval_seconds", interval);
}

void RunMetrics::OnStep(const v1::StepCommitted& committed, double time) {
  const v1::StepEvent event = EventOfStep(committed, *spec_);
  SetStep(event);
  steps_.Increment();
  tokens_.Increment(static_cast<double>(event.tokens()));
  if (event.skipped()) skipped_.Increment();
  if (event.step_seconds() > 0) duration_.Observe(event.step_seconds());
  if (last_step_ == nullptr) last_step_ = &series_.Gauge("stagecoach_last_step_timestamp_seconds", {run_});
  last_step_->Set(time);
}

void RunMetrics::OnCheckpointCompleted(uint64_t step, double time) {
  series_.Counter("stagecoach_checkpoints_total", {run_, "completed"}).Increment();
  SetGauge("stagecoach_last_checkpoint_step", static_cast<double>(step));
  SetGauge("stagecoach_last_checkpoint_timestamp_seconds", time);
  const auto observe = [&](const char* phase, absl::Duration took) {
    series_.Histogram("stagecoach_checkpoint_duration_seconds", {run_, phase}).Observe(absl::ToDoubleSeconds(took));
  };
  observe("shards", shards_took_);
  observe("manifest", manifest_took_);
}

void RunMetrics::OnProgress(const JobProgress& progress, absl::Duration now) {
  if (progress.checkpoint.stage != checkpoint_stage_) OnCheckpointStage(progress.checkpoint.stage, now);
  if (progress.phase == phase_) return;
  // The time of a step is counted when its votes come, with the decision that ends the phase.
  if (phase_ == Phase::kEvaluating) ChargeAll(kEvaluation, now);
  if (WaitsForCheckpoint(phase_)) ChargeAll(kCheckpoint, now);
  if (!IsCounted(phase_)) charged_until_ = now;
  phase_ = progress.phase;
}

void RunMetrics::OnCheckpointStage(Phase stage, absl::Duration now) {
  if (checkpoint_stage_ == Phase::kWritingManifest) {
    shards_took_ = manifest_began_ - checkpoint_began_;
    manifest_took_ = now - manifest_began_;
  }
  if (stage == Phase::kMakingDirectory) checkpoint_began_ = now;
  if (stage == Phase::kWritingManifest) manifest_began_ = now;
  checkpoint_stage_ = stage;
}

void RunMetrics::ChargeAll(size_t activity, absl::Duration now) {
  const double seconds = absl::ToDoubleSeconds(now - charged_until_);
  charged_until_ = now;
  for (const StageSeries& stage : stages_) stage.seconds[activity]->Increment(seconds);
}

void RunMetrics::OnStepMeasured(const StepMeasured& step, absl::Duration now) {
  const double wall = absl::ToDoubleSeconds(now - charged_until_);
  charged_until_ = now;
  for (const StageSeries& stage : stages_) {
    if (stage.worker_rank >= step.votes.size()) continue;
    const Measured measured = SecondsOf(step.votes[stage.worker_rank]->busy_seconds());
    double sum = 0;
    for (const double seconds : measured) sum += seconds;
    // The two clocks differ, and an update may have run while the evaluation before the step was counted.
    const double share = sum > wall ? wall / sum : 1;
    for (size_t activity = 0; activity < kNumMeasured; ++activity) {
      if (measured[activity] > 0) stage.seconds[activity]->Increment(measured[activity] * share);
    }
    stage.seconds[kIdle]->Increment(std::max(0.0, wall - sum));
  }
}

}  // namespace stagecoach
