#include "coordinator/service/worker_session_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "coordinator/service/stream_writer.h"

namespace stagecoach {
namespace {

// Of one session, between gRPC and the coordinator's thread.
constexpr StreamLimits kMaxUndelivered = {.messages = 64, .bytes = size_t{4} << 20};

// One stream. gRPC reads one message at a time, so the reading half has one thread at a time; the coordinator's sinks,
// the registry and cancellation come from other threads.
class SessionStream final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
                            public ServiceStream,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  SessionStream(const WorkerSessionService::Collaborators& to, grpc::CallbackServerContext& context)
      : to_(to),
        context_(context),
        hello_deadline_(to.clock.Now() + to.options.handshake_timeout),
        writer_(*this, to.clock, to.options.session) {}

  void Begin() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) return OnNothingRead();
    const absl::Status status = greeted() ? Deliver() : Connect();
    if (!status.ok()) return Leave(status, status);
    incoming_.Clear();
    if (MayRead()) Read();
  }

  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }

  void OnCancel() override {
    Leave(absl::UnavailableError("the connection broke"), absl::CancelledError("the session was cancelled"));
  }

  void OnDone() override {
    Leave(absl::UnavailableError("the session ended"), absl::OkStatus());
    to_.streams.Remove(this);
  }

  void Check() override {
    if (!greeted() && to_.clock.Now() >= hello_deadline_) {
      writer_.Abandon(absl::DeadlineExceededError(
          absl::StrCat("no Hello came within ", absl::FormatDuration(to_.options.handshake_timeout))));
    }
    writer_.CancelIfStalled(to_.options.stall_timeout, [this] { context_.TryCancel(); });
  }

  void End(const absl::Status& status) override { writer_.End(status); }

 private:
  bool greeted() const {
    MutexLock lock(mutex_);
    return greeted_;
  }

  absl::Status Connect() {
    if (!incoming_.has_hello()) return absl::InvalidArgumentError("the first message of a session must be Hello");
    {
      MutexLock lock(mutex_);
      greeted_ = true;
    }
    const Incarnation incarnation(incoming_.fence().incarnation());
    const absl::StatusOr<SessionId> session = to_.coordinator.ConnectWorker(incoming_.hello(), incarnation, MakeSink());
    if (!session.ok()) return session.status();
    session_ = *session;
    bool left = false;
    {
      MutexLock lock(mutex_);
      connected_ = true;
      left = left_;
    }
    if (left) Tell(absl::UnavailableError("the connection broke"));
    return absl::OkStatus();
  }

  // A worker that says more than the coordinator can hear is read more slowly; it must not fill the queue of all.
  absl::Status Deliver() {
    const size_t bytes = incoming_.ByteSizeLong();
    {
      MutexLock lock(mutex_);
      ++undelivered_.messages;
      undelivered_.bytes += bytes;
    }
    return to_.coordinator.Deliver(session_, std::move(incoming_), [weak = weak_from_this(), bytes] {
      if (const auto stream = weak.lock()) stream->OnHandled(bytes);
    });
  }

  void OnHandled(size_t bytes) {
    bool resume = false;
    {
      MutexLock lock(mutex_);
      --undelivered_.messages;
      undelivered_.bytes -= bytes;
      resume = reading_waits_ && undelivered_.messages <= kMaxUndelivered.messages / 2 &&
               undelivered_.bytes <= kMaxUndelivered.bytes / 2;
      if (resume) reading_waits_ = false;
    }
    if (resume) Read();
  }

  // Not after Finish.
  void Read() {
    writer_.WhileUnfinished([this] { StartRead(&incoming_); });
  }

  // False: OnHandled will read.
  bool MayRead() {
    MutexLock lock(mutex_);
    reading_waits_ = undelivered_.messages >= kMaxUndelivered.messages || undelivered_.bytes >= kMaxUndelivered.bytes;
    return !reading_waits_;
  }

  // The coordinator may keep it for longer than there is a stream.
  WorkerSink MakeSink() {
    const std::weak_ptr<SessionStream> weak = weak_from_this();
    return WorkerSink{.send =
                          [weak](v1::CoordinatorMessage message) {
                            const auto stream = weak.lock();
                            if (stream == nullptr) return absl::UnavailableError("the session has ended");
                            return stream->Send(std::move(message));
                          },
                      .end =
                          [weak](const absl::Status& status) {
                            if (const auto stream = weak.lock()) stream->writer_.End(status);
                          }};
  }

  absl::Status Send(v1::CoordinatorMessage message) {
    const absl::Status status = writer_.Push(std::move(message));
    if (absl::IsResourceExhausted(status)) writer_.Abandon(status);
    return status;
  }

  void OnNothingRead() {
    if (context_.IsCancelled()) return OnCancel();
    // A message that does not parse looks like the end.
    Leave(absl::UnavailableError("the worker ended the session"),
          absl::InvalidArgumentError("the worker's end of the stream was closed, or a message does not parse"));
  }

  // `why` is for the coordinator, once; `status` for the worker, if nothing was said before.
  void Leave(const absl::Status& why, const absl::Status& status) {
    bool tell = false;
    {
      MutexLock lock(mutex_);
      tell = connected_ && !left_;
      left_ = true;
    }
    if (tell) Tell(why);
    writer_.Abandon(status);
  }

  void Tell(const absl::Status& why) { to_.coordinator.EndSession(session_, why).IgnoreError(); }

  const WorkerSessionService::Collaborators to_;
  grpc::CallbackServerContext& context_;  // until Finish
  const absl::Duration hello_deadline_;
  v1::WorkerMessage incoming_;
  SessionId session_;  // constant once connected_
  StreamWriter<SessionStream, v1::CoordinatorMessage> writer_;
  mutable Mutex mutex_;
  StreamLimits undelivered_ ABSL_GUARDED_BY(mutex_) = {.messages = 0, .bytes = 0};
  bool reading_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;    // Hello has come
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;  // the coordinator knows the session
  bool left_ ABSL_GUARDED_BY(mutex_) = false;       // the stream is over
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* WorkerSessionService::Session(
    grpc::CallbackServerContext* context) {
  const auto stream = std::make_shared<SessionStream>(to_, *context);
  if (const absl::Status status = to_.streams.Add(stream); !status.ok()) {
    stream->End(status);
  } else {
    stream->Begin();
  }
  return stream.get();
}

}  // namespace stagecoach
