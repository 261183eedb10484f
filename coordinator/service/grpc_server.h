#ifndef STAGECOACH_COORDINATOR_SERVICE_GRPC_SERVER_H_
#define STAGECOACH_COORDINATOR_SERVICE_GRPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/listen_address.h"
#include "coordinator/coordinator.h"
#include "coordinator/service/client_service.h"
#include "coordinator/service/connection_acceptor.h"
#include "coordinator/service/service_options.h"
#include "coordinator/service/stream_registry.h"
#include "coordinator/service/worker_session_service.h"

namespace stagecoach {

// Serves a coordinator: sessions of workers, clients, health (grpc.health.v1: SERVING until Stop) and reflection.
// Thread-safe but for Stop, which one thread calls.
class GrpcServer {
 public:
  // `coordinator` and `clock` outlive the server. Errors are those of ConnectionAcceptor::Listen. Whether it may listen
  // there is the caller's to check (CheckListenIsAllowed).
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(Coordinator& coordinator, const ListenAddress& address,
                                                           const Clock& clock, const ServiceOptions& options = {});
  ~GrpcServer() { Stop(absl::ZeroDuration()); }

  // With the port that was chosen.
  const ListenAddress& address() const { return connections_->address(); }
  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments = {});

  size_t num_streams() const { return streams_.size(); }

  // NOT_SERVING, and nobody can connect any more. Idempotent.
  void Close();
  // Closes; all streams end with UNAVAILABLE, and calls that come do. Those that are still there after `grace` are
  // cancelled. To a coordinator that is not stopped the end of a session is a worker's: stop it first. Idempotent.
  void Stop(absl::Duration grace);

 private:
  GrpcServer(Coordinator& coordinator, const Clock& clock, const ServiceOptions& options);
  absl::Status Serve(std::unique_ptr<ConnectionAcceptor> connections);

  const ServiceOptions options_;
  // In this order: streams use the registry until the server is gone.
  StreamRegistry streams_;
  WorkerSessionService workers_;
  ClientService clients_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connection_input_;
  std::unique_ptr<ConnectionAcceptor> connections_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_GRPC_SERVER_H_
