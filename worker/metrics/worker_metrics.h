#ifndef STAGECOACH_WORKER_METRICS_WORKER_METRICS_H_
#define STAGECOACH_WORKER_METRICS_WORKER_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/metrics/metric_registry.h"
#include "common/mutex.h"
#include "worker/agent/worker_observer.h"

namespace stagecoach {

// Exports what a worker does: its session, and the traffic and memory of its stages. Series of a job that is held no
// more stay for the linger, so that a scrape sees their last values, or until another job's take their place.
class WorkerMetrics final : public WorkerObserver {
 public:
  static constexpr absl::Duration kLinger = absl::Minutes(1);  // Prometheus' usual interval of scrapes

  // Both outlive this. `memory_limit`: what the worker may use for jobs, in bytes.
  WorkerMetrics(MetricRegistry& registry, const Clock& clock, uint64_t memory_limit, absl::Duration linger = kLinger);

  void OnSession(uint64_t num_sessions, bool in_session) override;
  void OnStagesPrepared(const JobId& job, const v1::StageProgram& program, const StageBytes& bytes) override;
  void OnRun(const JobId& job, const v1::StageProgram& program, const RunReport& report) override;
  void OnReleased() override;

 private:
  struct Edge {
    prometheus::Counter* bytes = nullptr;
    prometheus::Counter* seconds = nullptr;
  };
  Edge& FindEdge(const v1::ChannelSpec& channel, bool sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetMemory(uint32_t stage, const StageBytes& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricRegistry& registry_;
  const Clock& clock_;
  const uint64_t memory_limit_;
  const absl::Duration linger_;

  Mutex mutex_;
  JobId job_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SeriesGroup> series_ ABSL_GUARDED_BY(mutex_);                         // of the job; null: none
  std::map<std::tuple<uint32_t, uint32_t, bool>, Edge> edges_ ABSL_GUARDED_BY(mutex_);  // by stages and direction
  std::unique_ptr<SeriesGroup> memory_ ABSL_GUARDED_BY(mutex_);                         // of its stages of this epoch
  std::optional<absl::Duration> remove_at_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_sessions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_METRICS_WORKER_METRICS_H_
