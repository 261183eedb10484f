#include "coordinator/service/testing/grpc_worker.h"

#include <utility>

#include "common/protocol_version.h"

namespace stagecoach {

GrpcWorker::GrpcWorker(const std::shared_ptr<grpc::Channel>& channel, std::unique_ptr<FakeWorker> worker,
                       OnMessage on_message)
    : worker_(std::move(worker)),
      on_message_(std::move(on_message)),
      stub_(v1::WorkerService::NewStub(channel)),
      stream_(stub_->Session(&context_)) {
  v1::WorkerMessage first;
  first.mutable_fence()->set_incarnation(worker_->incarnation().value());
  *first.mutable_hello() = worker_->hello();
  first.mutable_hello()->set_protocol_version(kProtocolVersion);
  Say(std::move(first));
  thread_ = NamedThread("fake worker", [this] { Loop(); });
}

GrpcWorker::~GrpcWorker() {
  Break();
  thread_.Join();
}

bool GrpcWorker::Say(v1::WorkerMessage message) {
  MutexLock lock(write_mutex_);
  return stream_->Write(message);
}

bool GrpcWorker::SendHeartbeat(uint64_t sequence) {
  v1::WorkerMessage message;
  message.mutable_fence()->set_incarnation(worker_->incarnation().value());
  message.mutable_fence()->set_coordinator_term(term_);
  message.mutable_heartbeat()->set_sequence(sequence);
  return Say(std::move(message));
}

grpc::Status GrpcWorker::WaitForEnd() {
  const auto deadline = DeadlineIn(absl::Seconds(30));
  MutexLock lock(mutex_);
  while (!end_.has_value()) {
    if (!has_ended_.WaitUntil(mutex_, deadline)) return grpc::Status(grpc::StatusCode::INTERNAL, "no end");
  }
  return *end_;
}

void GrpcWorker::Loop() {
  v1::CoordinatorMessage message;
  while (stream_->Read(&message)) {
    term_ = message.fence().coordinator_term();
    std::optional<v1::WorkerMessage> answer = worker_->Answer(message);
    on_message_(message, answer);
    if (answer.has_value() && !Say(*std::move(answer))) break;
  }
  const grpc::Status status = stream_->Finish();
  MutexLock lock(mutex_);
  end_ = status;
  has_ended_.NotifyAll();
}

}  // namespace stagecoach
