#ifndef STAGECOACH_COORDINATOR_SERVICE_FOLLOW_STREAM_H_
#define STAGECOACH_COORDINATOR_SERVICE_FOLLOW_STREAM_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/coordinator.h"
#include "coordinator/service/membership.h"
#include "coordinator/service/service_options.h"
#include "coordinator/service/stream_registry.h"
#include "coordinator/service/stream_writer.h"
#include "coordinator/task_thread.h"

namespace stagecoach {

// One reader of a job's events or log. When more comes than it reads, the coordinator forgets it, and it follows again
// from the last message that it took when there is room: a slow reader costs a bounded queue, and sees everything that
// is kept.
template <typename Request, typename Message>
class FollowStream final : public grpc::ServerWriteReactor<Message>,
                           public ServiceStream,
                           public std::enable_shared_from_this<FollowStream<Request, Message>> {
 public:
  using OnMessage = std::function<absl::Status(const Message&)>;
  using OnEnd = std::function<void(const absl::Status&)>;
  // All outlive the stream.
  struct Collaborators {
    // May block; called by the task thread.
    std::function<absl::StatusOr<FollowerId>(const Request&, OnMessage, OnEnd)> follow;
    // Makes a request for what comes after the message.
    std::function<void(const Message&, Request&)> advance;
    Coordinator& coordinator;
    StreamRegistry& streams;
    TaskThread& follow_thread;
    const Clock& clock;
    const ServiceOptions& options;
  };
  FollowStream(Collaborators to, grpc::CallbackServerContext& context, const Request& request)
      : to_(std::move(to)), context_(context), writer_(*this, to_.clock, to_.options.follower), request_(request) {}

  void Begin() {
    const absl::Status queued = to_.follow_thread.Run([self = this->shared_from_this()] { self->Follow(); });
    if (!queued.ok()) writer_.Abandon(queued);
  }

  void OnWriteDone(bool ok) override {
    writer_.OnWriteDone(ok);
    FollowAgainWhenThereIsRoom();
  }
  void OnCancel() override { Leave(absl::CancelledError("the call was cancelled")); }
  void OnDone() override {
    Leave(absl::OkStatus());
    to_.streams.Remove(this);
  }
  void Check() override {
    writer_.CancelIfStalled(to_.options.stall_timeout, [this] { context_.TryCancel(); });
  }
  void End(const absl::Status& status) override { writer_.End(status); }

 private:
  void Follow() {
    const std::weak_ptr<FollowStream> weak = this->weak_from_this();
    if (membership_.has_left()) return;
    Request request;
    {
      MutexLock lock(mutex_);
      request = request_;
    }
    const absl::StatusOr<FollowerId> follower = to_.follow(
        request,
        [weak](const Message& message) {
          const auto stream = weak.lock();
          return stream == nullptr ? absl::UnavailableError("the stream has ended") : stream->Take(message);
        },
        [weak](const absl::Status& status) {
          if (const auto stream = weak.lock()) stream->writer_.End(status);
        });
    if (!follower.ok()) return writer_.End(follower.status());
    if (!membership_.Join(*follower)) to_.coordinator.Unfollow(*follower);
  }

  absl::Status Take(const Message& message) {
    const absl::Status status = writer_.Push(message);
    {
      MutexLock lock(mutex_);
      if (status.ok()) to_.advance(message, request_);
      behind_ = absl::IsResourceExhausted(status);
    }
    // The queue may have been read in between, and then nothing else would follow again.
    if (!status.ok()) FollowAgainWhenThereIsRoom();
    return status;
  }

  void FollowAgainWhenThereIsRoom() {
    if (!writer_.HasRoom() || membership_.has_left()) return;
    {
      MutexLock lock(mutex_);
      if (!behind_) return;
      behind_ = false;
    }
    Begin();
  }

  void Leave(const absl::Status& status) {
    const auto leaving = membership_.Leave();
    if (!leaving.is_first) return;
    if (leaving.id.has_value()) to_.coordinator.Unfollow(*leaving.id);
    writer_.Abandon(status);
  }

  const Collaborators to_;
  grpc::CallbackServerContext& context_;  // until Finish
  StreamWriter<FollowStream, Message> writer_;
  Mutex mutex_;
  Request request_ ABSL_GUARDED_BY(mutex_);      // for what has not been taken yet
  bool behind_ ABSL_GUARDED_BY(mutex_) = false;  // forgotten by the coordinator, and to follow again
  Membership<FollowerId> membership_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SERVICE_FOLLOW_STREAM_H_
