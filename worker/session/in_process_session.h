#ifndef STAGECOACH_WORKER_SESSION_IN_PROCESS_SESSION_H_
#define STAGECOACH_WORKER_SESSION_IN_PROCESS_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/session.h"
#include "worker/session/received_messages.h"

namespace stagecoach {

// A session whose other end is in this process: what the worker sends goes to `deliver`, what the coordinator pushes is
// received. The queue is shared, so that the coordinator may still push to it, or end it, while the worker's end goes
// away or after. Thread-safe.
class InProcessSession final : public Session {
 public:
  using Deliver = std::function<absl::Status(v1::WorkerMessage)>;  // must not block
  using OnClose = std::function<void()>;                           // once: the worker has closed its end

  static constexpr size_t kQueueCapacity = 1024;  // a worker has a handful of messages under way

  InProcessSession(std::shared_ptr<ReceivedMessages> received, Deliver deliver, OnClose on_close)
      : received_(std::move(received)), deliver_(std::move(deliver)), on_close_(std::move(on_close)) {}
  ~InProcessSession() override { InProcessSession::Close(); }

  absl::Status Send(v1::WorkerMessage message) override {
    if (received_->has_ended()) return absl::UnavailableError("the session has ended");
    return deliver_(std::move(message));
  }
  absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) override { return received_->Pop(timeout); }
  void Close() override {
    received_->End(absl::UnavailableError("the session was closed"));
    if (!closed_.exchange(true)) on_close_();
  }

 private:
  const std::shared_ptr<ReceivedMessages> received_;
  const Deliver deliver_;
  const OnClose on_close_;
  std::atomic<bool> closed_{false};
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SESSION_IN_PROCESS_SESSION_H_
