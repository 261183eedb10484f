#ifndef STAGECOACH_COORDINATOR_SERVICE_TESTING_GRPC_WORKER_H_
#define STAGECOACH_COORDINATOR_SERVICE_TESTING_GRPC_WORKER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "common/named_thread.h"
#include "coordinator/testing/fake_worker.h"
#include "stagecoach/v1/worker.grpc.pb.h"

namespace stagecoach {

// A FakeWorker at the other end of a real session: says Hello, and answers what it is told from a thread of its own.
class GrpcWorker {
 public:
  // Called by that thread, before the answer is sent.
  using OnMessage = std::function<void(const v1::CoordinatorMessage&, const std::optional<v1::WorkerMessage>& answer)>;

  GrpcWorker(
      const std::shared_ptr<grpc::Channel>& channel, std::unique_ptr<FakeWorker> worker,
      OnMessage on_message = [](const auto&, const auto&) {});
  ~GrpcWorker();  // breaks the session

  // Thread-safe. False: the session has ended.
  bool Say(v1::WorkerMessage message);
  bool SendHeartbeat(uint64_t sequence);  // after Welcome
  // Of the session, once the coordinator, or this object, has ended it.
  grpc::Status WaitForEnd();
  void Break() { context_.TryCancel(); }

 private:
  void Loop();

  const std::unique_ptr<FakeWorker> worker_;
  const OnMessage on_message_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
  std::atomic<uint64_t> term_ = 0;
  Mutex write_mutex_;  // gRPC takes one write at a time
  Mutex mutex_;
  CondVar has_ended_;
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
  NamedThread thread_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_TESTING_GRPC_WORKER_H_
