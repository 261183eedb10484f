#ifndef STAGECOACH_TESTS_TESTING_WORKER_SERVICE_SCRIPTED_COORDINATOR_H_
#define STAGECOACH_TESTS_TESTING_WORKER_SERVICE_SCRIPTED_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/message_queue.h"
#include "stagecoach/v1/worker.grpc.pb.h"

namespace stagecoach {

// The coordinator's end of one session over gRPC. Thread-safe.
class ScriptedStream {
 public:
  virtual ~ScriptedStream() = default;
  virtual absl::Status Send(v1::CoordinatorMessage message) = 0;  // UNAVAILABLE: it has ended
  virtual absl::StatusOr<v1::WorkerMessage> Receive(absl::Duration timeout) = 0;
  virtual void End(const absl::Status& status) = 0;  // once all is sent
  virtual void StopReading() = 0;                    // after the message that comes next
};

// A gRPC server that does nothing with the sessions of workers but hand them to a test. Thread-safe.
class ScriptedCoordinator {
 public:
  // `address` as gRPC has it; with port 0 any that is free.
  explicit ScriptedCoordinator(const std::string& address);
  ~ScriptedCoordinator();

  const std::string& address() const { return address_; }
  absl::StatusOr<std::shared_ptr<ScriptedStream>> Accept(absl::Duration timeout);
  // Ends all streams as a process that dies does. Idempotent.
  void Stop();

 private:
  class Service;
  const std::unique_ptr<Service> service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_SERVICE_SCRIPTED_COORDINATOR_H_
