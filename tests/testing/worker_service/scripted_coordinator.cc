#include "tests/testing/worker_service/scripted_coordinator.h"

#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/mutex.h"
#include "grpcpp/grpcpp.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxMessages = 1 << 20;
constexpr int kMaxMessageBytes = 64 << 20;

class StreamReactor final : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
                            public ScriptedStream {
 public:
  void Begin(std::shared_ptr<StreamReactor> self) {
    MutexLock lock(mutex_);
    self_ = std::move(self);
    StartRead(&incoming_);
  }

  absl::Status Send(v1::CoordinatorMessage message) override {
    MutexLock lock(mutex_);
    if (finished_ || end_.has_value()) return absl::UnavailableError("the stream has ended");
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
    return absl::OkStatus();
  }
  absl::StatusOr<v1::WorkerMessage> Receive(absl::Duration timeout) override { return received_.Pop(timeout); }
  void End(const absl::Status& status) override {
    MutexLock lock(mutex_);
    if (!end_.has_value()) end_ = status;
    FinishIfDone();
  }
  void StopReading() override {
    MutexLock lock(mutex_);
    reads_ = false;
  }

 private:
  void OnReadDone(bool ok) override {
    // What was read is refused when the stream was cancelled meanwhile.
    if (!ok || !received_.Push(std::move(incoming_)).ok()) return received_.Close();
    incoming_.Clear();
    MutexLock lock(mutex_);
    if (reads_ && !finished_) StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();
    if (!outgoing_.empty() && !finished_) return StartWrite(&outgoing_.front());
    FinishIfDone();
  }
  void OnCancel() override {
    received_.Close();
    MutexLock lock(mutex_);
    if (!end_.has_value()) end_ = absl::CancelledError("the worker has gone");
    if (!finished_ && outgoing_.empty()) FinishIfDone();
  }
  void OnDone() override {
    received_.Close();
    std::shared_ptr<StreamReactor> self;
    MutexLock lock(mutex_);
    self.swap(self_);
  }
  void FinishIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || !end_.has_value() || !outgoing_.empty()) return;
    finished_ = true;
    Finish(grpc::Status(static_cast<grpc::StatusCode>(end_->code()), std::string(end_->message())));
  }

  MessageQueue<v1::WorkerMessage> received_{kMaxMessages};
  v1::WorkerMessage incoming_;

  Mutex mutex_;
  std::deque<v1::CoordinatorMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ ABSL_GUARDED_BY(mutex_) = true;
  std::shared_ptr<StreamReactor> self_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

class ScriptedCoordinator::Service final : public v1::WorkerService::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* /*context*/) override {
    auto stream = std::make_shared<StreamReactor>();
    stream->Begin(stream);
    STAGECOACH_CHECK(accepted.Push(stream).ok());
    return stream.get();
  }

  MessageQueue<std::shared_ptr<ScriptedStream>> accepted{1 << 16};
};

ScriptedCoordinator::ScriptedCoordinator(const std::string& address) : service_(std::make_unique<Service>()) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  STAGECOACH_CHECK(server_ != nullptr);
  const size_t colon = address.rfind(':');
  address_ = address.substr(colon) == ":0" ? absl::StrCat(address.substr(0, colon), ":", port) : address;
}

ScriptedCoordinator::~ScriptedCoordinator() { Stop(); }

absl::StatusOr<std::shared_ptr<ScriptedStream>> ScriptedCoordinator::Accept(absl::Duration timeout) {
  return service_->accepted.Pop(timeout);
}

void ScriptedCoordinator::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

}  // namespace stagecoach
