#ifndef STAGECOACH_COORDINATOR_SERVICE_TESTING_SERVICE_HARNESS_H_
#define STAGECOACH_COORDINATOR_SERVICE_TESTING_SERVICE_HARNESS_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/journal/memory_store.h"
#include "coordinator/service/grpc_server.h"
#include "coordinator/service/testing/grpc_worker.h"
#include "stagecoach/v1/coordinator.grpc.pb.h"
#include "tests/testing/simulated_clock.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {

// A specification that a client might send; its data and its checkpoints are in the directory.
v1::JobSpec CompleteSpec(const std::string& name, const TemporaryDirectory& directory, uint32_t num_workers,
                         uint64_t steps = 4);

// A coordinator with small plans behind a real gRPC server at a port of its own. The clock of both stands still unless
// told, so that nothing times out by itself.
class ServiceHarness {
 public:
  ServiceHarness() : ServiceHarness(DefaultOptions(), ListenAddress{.host = "127.0.0.1", .port = 0, .path = ""}) {}
  ServiceHarness(const ServiceOptions& options, const ListenAddress& listen);
  ~ServiceHarness();

  // Looks at the clock all the time.
  static ServiceOptions DefaultOptions() {
    ServiceOptions options;
    options.check_interval = absl::Milliseconds(2);
    return options;
  }

  // A connection of its own each time. Its window does not grow: what is not read soon holds up the server.
  std::shared_ptr<grpc::Channel> Dial() const;
  v1::CoordinatorService::Stub& client() { return *client_; }

  GrpcWorker& AddWorker(const std::string& name, uint64_t incarnation = 1);
  // Lets go of it, which breaks its session.
  void DropWorker(const std::string& name) { workers_.erase(name); }
  v1::JobSpec Spec(const std::string& name, uint32_t num_workers, uint64_t steps = 4) const {
    return CompleteSpec(name, directory, num_workers, steps);
  }
  // Its name.
  std::string Submit(const v1::JobSpec& spec);
  std::vector<v1::JobEvent> FollowToEnd(const v1::FollowJobRequest& request, grpc::Status& end);
  // Waits until a worker of that name is in that state.
  bool WaitForWorker(const std::string& name, v1::WorkerState state);
  // Waits until the server has so many.
  bool WaitForStreams(size_t number);

  SimulatedClock clock;
  MemoryStore store;
  TemporaryDirectory directory;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<GrpcServer> server;

 private:
  std::unique_ptr<v1::CoordinatorService::Stub> client_;
  std::map<std::string, std::unique_ptr<GrpcWorker>> workers_;
};

// A call that takes longer has failed.
void SetDeadline(grpc::ClientContext& context);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_TESTING_SERVICE_HARNESS_H_
