#ifndef STAGECOACH_COMMON_METRICS_METRICS_SERVER_H_
#define STAGECOACH_COMMON_METRICS_METRICS_SERVER_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/listen_address.h"
#include "common/metrics/metric_registry.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace stagecoach {

// Serves a registry to Prometheus: GET /metrics over HTTP, and nothing else. Threads of its own. Whether it may listen
// there is the caller's to check.
class MetricsServer {
 public:
  // INVALID_ARGUMENT: a Unix socket, or no such host. UNAVAILABLE: the port is taken.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const MetricRegistry& registry,
                                                              const ListenAddress& address);
  ~MetricsServer();

  const ListenAddress& address() const { return address_; }  // with the port that was chosen

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, ListenAddress address);

  std::unique_ptr<prometheus::Exposer> exposer_;
  ListenAddress address_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_METRICS_METRICS_SERVER_H_
