#ifndef STAGECOACH_COORDINATOR_SERVICE_WORKER_SESSION_SERVICE_H_
#define STAGECOACH_COORDINATOR_SERVICE_WORKER_SESSION_SERVICE_H_

#include "common/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/service/service_options.h"
#include "coordinator/service/stream_registry.h"
#include "stagecoach/v1/worker.grpc.pb.h"

namespace stagecoach {

// Workers' sessions: turns each stream into the coordinator's ConnectWorker, Deliver and EndSession, and its sinks into
// writes. Semantics are documented in worker.proto. Thread-safe.
class WorkerSessionService final : public v1::WorkerService::CallbackService {
 public:
  // All outlive the service, and it outlives the server.
  struct Collaborators {
    Coordinator& coordinator;
    StreamRegistry& streams;
    const Clock& clock;
    const ServiceOptions& options;
  };
  explicit WorkerSessionService(const Collaborators& to) : to_(to) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  const Collaborators to_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_WORKER_SESSION_SERVICE_H_
