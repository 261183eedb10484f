#ifndef STAGECOACH_COORDINATOR_METRICS_RUN_METRICS_H_
#define STAGECOACH_COORDINATOR_METRICS_RUN_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metric_registry.h"
#include "coordinator/jobs/effect.h"
#include "coordinator/jobs/job_record.h"
#include "coordinator/jobs/job_state.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach {

// What the journal of earlier lives of the coordinator says of a job, and its record does not.
struct RunPast {
  double last_step_time = 0;  // Unix time; 0: unknown, as below
  double last_checkpoint_time = 0;
  double started_time = 0;
  std::optional<double> validation_loss;
};

// The series of one job, from its submission until some time after its end. What is not known yet has no series.
// Counters count in this life of the coordinator. `now` is the coordinator's clock. Used by one thread.
class RunMetrics {
 public:
  // Of a job as it is: new, or of a journal that was replayed.
  RunMetrics(MetricRegistry& registry, const JobRecord& job, const RunPast& past);

  // `entry` is about the job, which has taken it over.
  void OnEntry(const v1::JournalEntry& entry, const JobRecord& job);
  // The job is about to be where `progress` says.
  void OnProgress(const JobProgress& progress, absl::Duration now);
  void OnStepMeasured(const StepMeasured& step, absl::Duration now);
  bool has_ended() const { return HasEnded(state_); }

 private:
  static constexpr size_t kNumActivities = 11;

  struct StageSeries {
    uint32_t worker_rank = 0;
    std::array<prometheus::Counter*, kNumActivities> seconds{};
    prometheus::Gauge* utilization = nullptr;
    prometheus::Gauge* bubble = nullptr;
  };
  // Used with every step, so not looked up. Null until the first one.
  struct StepSeries {
    prometheus::Gauge* loss = nullptr;
    prometheus::Gauge* grad_norm = nullptr;
    prometheus::Gauge* learning_rate = nullptr;
    prometheus::Gauge* loss_scale = nullptr;
  };

  void SetGauge(const std::string& name, double value) { series_.Gauge(name, {run_}).Set(value); }
  void SetState(v1::JobState state);
  void OnStateChanged(v1::JobState state, double time);
  void SetPlan(const v1::Plan& plan);
  void SetStageSeries(const v1::Plan& plan);
  void SetStep(const v1::StepEvent& event);
  void SetCheckpointInterval(double step_seconds);
  void OnStep(const v1::StepCommitted& committed, double time);
  void OnCheckpointCompleted(uint64_t step, double time);
  void OnCheckpointStage(Phase stage, absl::Duration now);
  void ChargeAll(size_t activity, absl::Duration now);

  const std::string run_;
  const std::shared_ptr<const v1::JobSpec> spec_;
  SeriesGroup series_;
  SeriesGroup state_series_;  // of the state that the job is in
  SeriesGroup plan_series_;   // that have the plan's values for labels
  SeriesGroup stage_series_;
  std::vector<StageSeries> stages_;
  StepSeries of_step_;
  prometheus::Gauge& step_;
  prometheus::Counter& steps_;
  prometheus::Counter& tokens_;
  prometheus::Counter& skipped_;
  prometheus::Histogram& duration_;
  prometheus::Gauge* last_step_ = nullptr;  // null until training has begun

  bool has_started_ = false;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  Phase phase_ = Phase::kNone;
  absl::Duration charged_until_;  // what the stages did before has been counted
  Phase checkpoint_stage_ = Phase::kNone;
  absl::Duration checkpoint_began_, manifest_began_;
  absl::Duration shards_took_, manifest_took_;  // of the newest that got so far
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_METRICS_RUN_METRICS_H_
