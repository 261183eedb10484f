#ifndef STAGECOACH_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
#define STAGECOACH_COORDINATOR_METRICS_COORDINATOR_METRICS_H_

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/metrics/metric_registry.h"
#include "coordinator/metrics/run_metrics.h"
#include "coordinator/state_observer.h"

namespace stagecoach {

// Exports what the coordinator's state says: series of each job, and of the fleet. Those of a job that has ended stay
// for the linger, so that a scrape sees its last values, and then go. Gauges of the fleet follow with the next pulse.
class CoordinatorMetrics final : public StateObserver {
 public:
  static constexpr absl::Duration kLinger = absl::Minutes(1);  // Prometheus' usual interval of scrapes

  // Both outlive this.
  CoordinatorMetrics(MetricRegistry& registry, const Clock& clock, absl::Duration linger = kLinger);

  void OnEntry(const v1::JournalEntry& entry, const State& state, bool replayed) override;
  void BeforeFact(const ObserveFact& fact, const State& state) override;
  void OnStepMeasured(const StepMeasured& step, const State& state) override;

 private:
  void OnReplayed(const v1::JournalEntry& entry, const State& state);
  void OnJobEntry(const v1::JournalEntry& entry, const JobRecord& job);
  void CountLoss(const WorkerRecord& worker, const State& state);
  void SetFleet(const State& state);
  void RemoveEnded();

  MetricRegistry& registry_;
  const Clock& clock_;
  const absl::Duration linger_;
  std::map<JobId, RunPast> pasts_;  // of jobs that have not ended, while the journal is replayed
  std::map<JobId, RunMetrics> runs_;
  std::deque<std::pair<absl::Duration, JobId>> ended_;  // when the series go
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_METRICS_COORDINATOR_METRICS_H_
