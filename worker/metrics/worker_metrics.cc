#include "worker/metrics/worker_metrics.h"

#include "absl/strings/str_cat.h"
#include "common/build_version.h"

namespace stagecoach {

WorkerMetrics::WorkerMetrics(MetricRegistry& registry, const Clock& clock, uint64_t memory_limit, absl::Duration linger)
    : registry_(registry), clock_(clock), memory_limit_(memory_limit), linger_(linger) {
  registry_.Gauge("stagecoach_build_info", {BuildVersion()}).Set(1);
  registry_.Gauge("stagecoach_session_up").Set(0);
  registry_.Counter("stagecoach_sessions_total");
}

void WorkerMetrics::OnSession(uint64_t num_sessions, bool in_session) {
  MutexLock lock(mutex_);
  registry_.Gauge("stagecoach_session_up").Set(in_session ? 1 : 0);
  registry_.Counter("stagecoach_sessions_total").Increment(static_cast<double>(num_sessions - num_sessions_));
  num_sessions_ = num_sessions;
  if (!remove_at_.has_value() || clock_.Now() < *remove_at_) return;
  Forget();
}

void WorkerMetrics::Forget() {
  remove_at_.reset();
  memory_.reset();
  edges_.clear();
  series_.reset();
}

void WorkerMetrics::OnStagesPrepared(const JobId& job, const v1::StageProgram& program, const StageBytes& bytes) {
  MutexLock lock(mutex_);
  remove_at_.reset();
  if (job != job_) Forget();
  job_ = job;
  if (series_ == nullptr) series_ = std::make_unique<SeriesGroup>(registry_);
  memory_.reset();
  // Stages of one worker share its memory: the first stands for all, so that sums over stages are right.
  if (!program.stages().empty()) SetMemory(program.stages(0).stage(), bytes);
}

void WorkerMetrics::SetMemory(uint32_t stage, const StageBytes& bytes) {
  memory_ = std::make_unique<SeriesGroup>(registry_);
  const auto set = [&memory = *memory_, run = job_.value(), stage](const char* kind, uint64_t value) {
    memory.Gauge("stagecoach_device_memory_bytes", {run, absl::StrCat(stage), kind}).Set(static_cast<double>(value));
  };
  set("allocated", bytes.state + bytes.arena);
  set("activations", bytes.arena);
  set("snapshot", bytes.snapshot);
  set("limit", memory_limit_);
}

void WorkerMetrics::OnRun(const JobId& job, const v1::StageProgram& program, const RunReport& report) {
  MutexLock lock(mutex_);
  if (series_ == nullptr || job != job_) return;
  for (const Traffic& traffic : report.traffic) {
    const Edge& edge = FindEdge(program.channels(static_cast<int>(traffic.channel)), traffic.sent);
    edge.bytes->Increment(static_cast<double>(traffic.bytes));
    edge.seconds->Increment(traffic.wait_seconds);
  }
}

// What goes between two stages is one series in each direction, whatever its kind.
WorkerMetrics::Edge& WorkerMetrics::FindEdge(const v1::ChannelSpec& channel, bool sent) {
  const uint32_t here = sent ? channel.from_stage() : channel.to_stage();
  const uint32_t there = sent ? channel.to_stage() : channel.from_stage();
  Edge& edge = edges_[{here, there, sent}];
  if (edge.bytes == nullptr) {
    const MetricRegistry::LabelValues labels = {job_.value(), absl::StrCat(here), absl::StrCat(there),
                                                sent ? "send" : "receive"};
    edge.bytes = &series_->Counter("stagecoach_p2p_bytes_total", labels);
    edge.seconds = &series_->Counter("stagecoach_p2p_transfer_seconds_total", labels);
  }
  return edge;
}

void WorkerMetrics::OnReleased() {
  MutexLock lock(mutex_);
  if (series_ != nullptr) remove_at_ = clock_.Now() + linger_;
}

}  // namespace stagecoach
