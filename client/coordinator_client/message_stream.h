#ifndef STAGECOACH_CLIENT_COORDINATOR_CLIENT_MESSAGE_STREAM_H_
#define STAGECOACH_CLIENT_COORDINATOR_CLIENT_MESSAGE_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/coordinator_client/grpc_status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/async_stream.h"

namespace stagecoach {

// One call that answers with a stream, read with timeouts. Used by one thread.
template <typename Message>
class StreamCall {
 public:
  virtual ~StreamCall() = default;
  // Nothing: no message within `timeout`. OUT_OF_RANGE: the call ended with OK. Any other error: what it ended with.
  virtual absl::StatusOr<std::optional<Message>> Next(absl::Duration timeout) = 0;
};

// By gRPC; the destructor cancels the call.
template <typename Message>
class MessageStream final : public StreamCall<Message> {
 public:
  using Reader = std::unique_ptr<grpc::ClientAsyncReader<Message>>;
  using Prepare = std::function<Reader(grpc::ClientContext*, grpc::CompletionQueue*)>;

  explicit MessageStream(const Prepare& prepare) : reader_(prepare(&context_, &queue_)) { reader_->StartCall(this); }
  ~MessageStream() override {
    context_.TryCancel();
    while (state_ != State::kEnded) (void)Next(absl::InfiniteDuration());
  }
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;

  absl::StatusOr<std::optional<Message>> Next(absl::Duration timeout) override {
    const gpr_timespec deadline = Deadline(timeout);
    while (state_ != State::kEnded) {
      void* tag = nullptr;
      bool ok = false;
      if (queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::TIMEOUT) return std::nullopt;
      if (std::optional<Message> message = Advance(ok); message) return message;
    }
    return end_.ok() ? absl::OutOfRangeError("the stream has ended") : end_;
  }

 private:
  // There is always one operation under way, until the end.
  enum class State { kStarting, kReading, kFinishing, kEnded };

  std::optional<Message> Advance(bool ok) {
    std::optional<Message> message;
    if (state_ == State::kFinishing) {
      end_ = FromGrpc(status_);
      state_ = State::kEnded;
    } else if (!ok) {
      state_ = State::kFinishing;
      reader_->Finish(&status_, this);
    } else {
      if (state_ == State::kReading) message = std::move(next_);
      state_ = State::kReading;
      next_ = Message();
      reader_->Read(&next_, this);
    }
    return message;
  }

  static gpr_timespec Deadline(absl::Duration timeout) {
    if (timeout == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN));
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  Reader reader_;
  State state_ = State::kStarting;
  Message next_;
  grpc::Status status_;
  absl::Status end_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COORDINATOR_CLIENT_MESSAGE_STREAM_H_
