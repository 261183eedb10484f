#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "tests/conformance/session_conformance.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker_service/scripted_coordinator.h"
#include "worker/session/grpc_session.h"
#include "worker/session/in_process_session.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kAcceptTimeout = absl::Seconds(20);

class InProcessWorld final : public SessionWorld {
 public:
  std::unique_ptr<Session> Dial() override {
    auto end = std::make_shared<CoordinatorEnd>();
    EXPECT_TRUE(dialled_.Push(end).ok());
    return std::make_unique<InProcessSession>(
        end->to_worker, [end](v1::WorkerMessage message) { return end->Deliver(std::move(message)); },
        [end] { end->from_worker.Close(); });
  }
  std::shared_ptr<OtherEnd> Accept() override { return *dialled_.Pop(kAcceptTimeout); }

 private:
  struct CoordinatorEnd final : OtherEnd {
    absl::Status Deliver(v1::WorkerMessage message) { return from_worker.Push(std::move(message)); }
    absl::Status Send(v1::CoordinatorMessage message) override { return to_worker->Push(std::move(message)); }
    absl::StatusOr<v1::WorkerMessage> Receive(absl::Duration timeout) override { return from_worker.Pop(timeout); }
    void End(const absl::Status& status) override {
      to_worker->End(status);
      from_worker.Close();
    }
    void Vanish() override { End(absl::UnavailableError("the coordinator has gone")); }
    void StopReading() override {}  // it reads when Receive is called

    const std::shared_ptr<ReceivedMessages> to_worker =
        std::make_shared<ReceivedMessages>(InProcessSession::kQueueCapacity);
    MessageQueue<v1::WorkerMessage> from_worker{1 << 15};
  };

  MessageQueue<std::shared_ptr<CoordinatorEnd>> dialled_{1 << 10};
};

class GrpcWorld final : public SessionWorld {
 public:
  explicit GrpcWorld(bool unix)
      : coordinator_(std::make_shared<ScriptedCoordinator>(unix ? absl::StrCat("unix:", directory_.path(), "/socket")
                                                                : "127.0.0.1:0")) {}

  std::unique_ptr<Session> Dial() override { return DialGrpcSession({.address = coordinator_->address()}); }
  std::shared_ptr<OtherEnd> Accept() override {
    auto end = std::make_shared<CoordinatorEnd>();
    end->coordinator = coordinator_;
    end->stream = *coordinator_->Accept(kAcceptTimeout);
    return end;
  }

 private:
  struct CoordinatorEnd final : OtherEnd {
    absl::Status Send(v1::CoordinatorMessage message) override { return stream->Send(std::move(message)); }
    absl::StatusOr<v1::WorkerMessage> Receive(absl::Duration timeout) override { return stream->Receive(timeout); }
    void End(const absl::Status& status) override { stream->End(status); }
    void Vanish() override { coordinator->Stop(); }
    void StopReading() override { stream->StopReading(); }

    std::shared_ptr<ScriptedCoordinator> coordinator;
    std::shared_ptr<ScriptedStream> stream;
  };

  const TemporaryDirectory directory_;
  const std::shared_ptr<ScriptedCoordinator> coordinator_;
};

}  // namespace

std::vector<SessionKind> SessionsUnderTest() {
  return {{"InProcess", [] { return std::make_unique<InProcessWorld>(); }},
          {"GrpcTcp", [] { return std::make_unique<GrpcWorld>(/*unix=*/false); }},
          {"GrpcUnix", [] { return std::make_unique<GrpcWorld>(/*unix=*/true); }}};
}

}  // namespace stagecoach
