#ifndef STAGECOACH_COORDINATOR_SERVER_H_
#define STAGECOACH_COORDINATOR_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/health/health_server.h"
#include "common/listen_address.h"
#include "common/loop_beat.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/metrics_server.h"
#include "coordinator/coordinator.h"
#include "coordinator/fleet/fleet_options.h"
#include "coordinator/journal/sqlite_store.h"
#include "coordinator/metrics/coordinator_metrics.h"
#include "coordinator/service/grpc_server.h"

namespace stagecoach {

// The coordinator as a process: a journal in a state directory, and a gRPC server in front; on ports of their own
// metrics and health.
class Server {
 public:
  struct Options {
    std::string state_directory;  // made, for this user alone, when it is not there
    ListenAddress listen;
    std::string address_file;  // where the address is written once it is served; empty: nowhere
    FleetOptions fleet;
    std::optional<ListenAddress> metrics;  // where Prometheus finds them; none: nowhere
    std::optional<ListenAddress> health;   // where probes ask; none: nowhere but at `listen`
    // The journal could not be written. By the coordinator's thread; must not call Stop.
    std::function<void(const absl::Status&)> on_halt;
  };
  // Locks and replays the journal, then serves. Errors: of SqliteStore::Lock, Coordinator::Create, GrpcServer::Start,
  // and of the files.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options);
  ~Server() { Stop(); }

  // Jobs stay as they are: a server that is started on the same directory goes on with them. Idempotent.
  void Stop();

 private:
  explicit Server(const std::string& journal) : store_(journal) {}
  absl::Status StartHealth(const ListenAddress& address);
  absl::Status StartMetrics(const ListenAddress& address);

  SqliteStore store_;
  LoopBeat beat_;
  std::atomic<bool> is_ready_ = false;
  // In this order: each uses what is before it. Null unless asked for.
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<MetricRegistry> registry_;
  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<GrpcServer> grpc_;  // before what it serves
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVER_H_
