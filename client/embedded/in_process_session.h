#ifndef STAGECOACH_CLIENT_EMBEDDED_IN_PROCESS_SESSION_H_
#define STAGECOACH_CLIENT_EMBEDDED_IN_PROCESS_SESSION_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/message_queue.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/session.h"

namespace stagecoach {

// A session whose other end is in this process: what the worker sends goes to `deliver`, what the coordinator pushes is
// received. Thread-safe. The queue is shared, so that the coordinator may still push while, or after, the worker's end
// goes away.
class InProcessSession final : public Session {
 public:
  using ToWorker = MessageQueue<v1::CoordinatorMessage>;
  using Deliver = std::function<absl::Status(v1::WorkerMessage)>;  // does not block

  static constexpr size_t kQueueCapacity = 1024;  // a worker has a handful of messages under way

  using OnClose = std::function<void()>;

  InProcessSession(std::shared_ptr<ToWorker> to_worker, Deliver deliver, OnClose on_close)
      : to_worker_(std::move(to_worker)), deliver_(std::move(deliver)), on_close_(std::move(on_close)) {}

  absl::Status Send(v1::WorkerMessage message) override { return deliver_(std::move(message)); }
  absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) override { return to_worker_->Pop(timeout); }
  void Close() override {
    to_worker_->Close();
    on_close_();
  }

 private:
  const std::shared_ptr<ToWorker> to_worker_;
  const Deliver deliver_;
  const OnClose on_close_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_EMBEDDED_IN_PROCESS_SESSION_H_
