#include "worker/session/grpc_session.h"

#include <deque>
#include <utility>

#include "common/log.h"
#include "common/mutex.h"
#include "grpcpp/grpcpp.h"
#include "stagecoach/v1/worker.grpc.pb.h"
#include "worker/session/received_messages.h"

namespace stagecoach {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;  // a program for thousands of micro-batches
constexpr int kKeepaliveMilliseconds = 10'000;
constexpr int kKeepaliveTimeoutMilliseconds = 3'000;
// A cancelled call ends at once. A session waits no longer for one that does not, and leaves it where it is.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a coordinator is not on the far side of a web proxy
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// That gRPC is done with a call. Shared, so that whoever waits for it may destroy the call at once.
class DoneSignal {
 public:
  void Set() {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  bool Wait(absl::Duration timeout) {
    const auto deadline = DeadlineIn(timeout);
    MutexLock lock(mutex_);
    while (!done_ && changed_.WaitUntil(mutex_, deadline)) {
    }
    return done_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

// The call. Messages are read ahead until `receive_capacity` of them wait; one write is under way at a time. The hold
// keeps the call open for operations begun outside of its reactions; it is removed when a read says that the stream has
// ended, after which none is begun. Operations are begun under the mutex: they do not block, and their reactions run on
// threads of gRPC. To be destroyed after `done`, and never on such a thread: they end with the last channel of the
// process, and in gRPC 1.51 one that destroys it waits for itself in vain and goes on with what has been freed.
class StreamReactor final : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  explicit StreamReactor(const GrpcSessionOptions& options)
      : options_(options),
        stub_(v1::WorkerService::NewStub(MakeChannel(options.address))),
        received_(options.receive_capacity) {}

  void Begin() {
    stub_->async()->Session(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  absl::Status Send(v1::WorkerMessage message) {
    MutexLock lock(mutex_);
    if (ended_ || received_.has_ended()) return absl::UnavailableError("the session has ended");
    if (outgoing_.size() >= options_.send_capacity) {
      return absl::ResourceExhaustedError("the coordinator does not read what this worker sends");
    }
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
    return absl::OkStatus();
  }

  absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) {
    absl::StatusOr<v1::CoordinatorMessage> message = received_.Pop(timeout);
    MutexLock lock(mutex_);
    if (message.ok()) {
      --num_received_;
      if (!reading_ && !ended_) ReadNext();
    }
    return message;
  }

  void Close() {
    context_.TryCancel();
    received_.End(absl::UnavailableError("the session was closed"));
    MutexLock lock(mutex_);
    if (!reading_) EndOperations();
  }

  DoneSignal& done() { return *done_; }

 private:
  void OnReadDone(bool ok) override {
    MutexLock lock(mutex_);
    reading_ = false;
    // A message that is refused came after Close.
    if (!ok || !received_.Push(std::move(incoming_)).ok()) return EndOperations();
    ++num_received_;
    if (num_received_ < options_.receive_capacity) ReadNext();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // the stream is broken, as the read will say
    if (!outgoing_.empty() && !ended_) StartWrite(&outgoing_.front());
  }

  void OnDone(const grpc::Status& status) override {
    received_.End(absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
    // From then on this object may be gone.
    const std::shared_ptr<DoneSignal> done = done_;
    done->Set();
  }

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = true;
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void EndOperations() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_) return;
    ended_ = true;
    RemoveHold();
  }

  const GrpcSessionOptions options_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  ReceivedMessages received_;
  v1::CoordinatorMessage incoming_;  // of the read under way
  const std::shared_ptr<DoneSignal> done_ = std::make_shared<DoneSignal>();

  Mutex mutex_;
  std::deque<v1::WorkerMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  size_t num_received_ ABSL_GUARDED_BY(mutex_) = 0;                 // and not taken yet
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // no operation is begun any more
};

class GrpcSession final : public Session {
 public:
  explicit GrpcSession(const GrpcSessionOptions& options) : stream_(std::make_unique<StreamReactor>(options)) {
    stream_->Begin();
  }
  ~GrpcSession() override {
    stream_->Close();
    if (stream_->done().Wait(kEndTimeout)) return;
    spdlog::error("a session that was closed does not end; it is left to gRPC");
    static_cast<void>(stream_.release());
  }

  absl::Status Send(v1::WorkerMessage message) override { return stream_->Send(std::move(message)); }
  absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) override { return stream_->Receive(timeout); }
  void Close() override { stream_->Close(); }

 private:
  std::unique_ptr<StreamReactor> stream_;
};

}  // namespace

std::unique_ptr<Session> DialGrpcSession(const GrpcSessionOptions& options) {
  return std::make_unique<GrpcSession>(options);
}

}  // namespace stagecoach
