#ifndef STAGECOACH_COORDINATOR_SERVICE_RPC_METRICS_H_
#define STAGECOACH_COORDINATOR_SERVICE_RPC_METRICS_H_

#include <grpcpp/support/server_interceptor.h>

#include "common/metrics/metric_registry.h"

namespace stagecoach {

// Counts the calls that clients make, and takes their time. Sessions of workers are no calls: they are left alone.
class RpcMetrics final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `registry` outlives the server.
  explicit RpcMetrics(MetricRegistry& registry) : registry_(registry) {}

  // Null: the call is not counted.
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override;

 private:
  MetricRegistry& registry_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_RPC_METRICS_H_
