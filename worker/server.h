#ifndef STAGECOACH_WORKER_SERVER_H_
#define STAGECOACH_WORKER_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/health/health_server.h"
#include "common/listen_address.h"
#include "common/loop_beat.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/metrics_server.h"
#include "common/simulated_device.h"
#include "worker/agent/agent.h"
#include "worker/agent/job_log.h"
#include "worker/metrics/worker_metrics.h"
#include "worker/registry/transport/transport_registry.h"

namespace stagecoach {

// What the worker daemon is told by its command line; see worker/main.cc.
struct ServerOptions {
  ListenAddress coordinator;
  std::string name;  // empty: of the host, with a random suffix
  std::string device = "cpu";
  std::optional<SimulatedCosts> simulated_costs;  // exactly when the device is simulated
  std::string transport = "ucx";
  TransportSettings transport_settings;
  uint32_t max_threads = 0;   // 0: as many as the machine has
  uint64_t memory_bytes = 0;  // 0: all that the device has
  absl::Duration leave_timeout = absl::Seconds(30);
  absl::Duration dial_timeout = absl::InfiniteDuration();
  std::optional<absl::Duration> orphan_timeout;  // instead of the coordinator's
  absl::Duration transfer_timeout = absl::Minutes(10);
  std::optional<ListenAddress> metrics;  // where Prometheus finds them; none: nowhere
  std::optional<ListenAddress> health;   // where probes ask; none: nowhere
  std::shared_ptr<JobLog> log;
  std::function<void()> on_end;  // as AgentOptions
};

// The worker daemon but for its process: puts an agent together with the device, the transport and the session that the
// options name. Public methods: any thread.
class Server {
 public:
  // NOT_FOUND: no such device or transport. INVALID_ARGUMENT: the device has not so much. UNAVAILABLE: a
  // port for metrics or health is taken. Errors of the device.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);

  const std::string& name() const { return name_; }
  void Leave(const std::string& reason);                                                      // as Agent
  std::optional<absl::Status> Wait(absl::Duration timeout) { return agent_->Wait(timeout); }  // as Agent

 private:
  Server(std::string name, std::shared_ptr<JobLog> log) : name_(std::move(name)), log_(std::move(log)) {}
  absl::Status StartHealth(const ListenAddress& address);
  absl::Status StartMetrics(const ListenAddress& address);

  const std::string name_;
  const std::shared_ptr<JobLog> log_;
  LoopBeat beat_;
  std::atomic<bool> is_leaving_ = false;
  // In this order: each uses what is before it. Null unless asked for, but the agent.
  std::unique_ptr<MetricRegistry> registry_;
  std::unique_ptr<WorkerMetrics> metrics_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<HealthServer> health_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SERVER_H_
