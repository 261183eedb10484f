#include "coordinator/service/worker_session_service.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/named_thread.h"
#include "common/protocol_version.h"
#include "coordinator/service/testing/service_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

v1::WorkerMessage HelloFrom(const std::string& name) {
  v1::WorkerMessage message;
  message.mutable_fence()->set_incarnation(7);
  message.mutable_hello()->set_worker(name);
  message.mutable_hello()->set_protocol_version(kProtocolVersion);
  return message;
}

v1::WorkerMessage Heartbeat(uint64_t sequence) {
  v1::WorkerMessage message;
  message.mutable_fence()->set_incarnation(7);
  message.mutable_fence()->set_coordinator_term(1);
  message.mutable_heartbeat()->set_sequence(sequence);
  return message;
}

// One stream, as a client of gRPC has it.
class RawSession {
 public:
  explicit RawSession(const ServiceHarness& service) : stub_(v1::WorkerService::NewStub(service.Dial())) {
    SetDeadline(context);
    stream = stub_->Session(&context);
  }
  // Its status, when it is at its end without a message before.
  grpc::Status End() {
    v1::CoordinatorMessage message;
    EXPECT_FALSE(stream->Read(&message)) << message.ShortDebugString();
    return stream->Finish();
  }
  grpc::ClientContext context;

 private:
  const std::unique_ptr<v1::WorkerService::Stub> stub_;

 public:
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream;
};

TEST(WorkerSessionServiceTest, AnswersHelloWithWelcome) {
  ServiceHarness service;
  RawSession session(service);
  ASSERT_TRUE(session.stream->Write(HelloFrom("w")));
  v1::CoordinatorMessage message;
  ASSERT_TRUE(session.stream->Read(&message));
  EXPECT_TRUE(message.has_welcome());
  EXPECT_EQ(message.fence().incarnation(), 7u);
  EXPECT_EQ(message.fence().coordinator_term(), 1u);
  ASSERT_TRUE(session.stream->Write(Heartbeat(1)));
  ASSERT_TRUE(session.stream->Read(&message));
  EXPECT_EQ(message.heartbeat_reply().sequence(), 1u);
}

TEST(WorkerSessionServiceTest, RefusesAnotherProtocolVersionByName) {
  ServiceHarness service;
  RawSession session(service);
  v1::WorkerMessage hello = HelloFrom("w");
  hello.mutable_hello()->set_protocol_version(kProtocolVersion + 41);
  session.stream->Write(hello);
  const grpc::Status status = session.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("version " + std::to_string(kProtocolVersion + 41)));
  EXPECT_THAT(status.error_message(), HasSubstr("version " + std::to_string(kProtocolVersion)));
}

TEST(WorkerSessionServiceTest, RefusesAHelloWithoutNameOrIncarnation) {
  ServiceHarness service;
  v1::WorkerMessage no_name = HelloFrom("");
  v1::WorkerMessage no_incarnation = HelloFrom("w");
  no_incarnation.mutable_fence()->set_incarnation(0);
  for (const v1::WorkerMessage& hello : {no_name, no_incarnation}) {
    RawSession session(service);
    session.stream->Write(hello);
    EXPECT_EQ(session.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST(WorkerSessionServiceTest, RefusesAFirstMessageThatIsNotHello) {
  ServiceHarness service;
  RawSession session(service);
  session.stream->Write(Heartbeat(1));
  EXPECT_EQ(session.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(WorkerSessionServiceTest, EndsAStreamOnWhichNoHelloComes) {
  ServiceHarness service;
  RawSession session(service);
  std::atomic<bool> ended = false;
  // Time passes also before the server knows of the stream.
  NamedThread time("time", [&] {
    while (!ended) {
      service.clock.Advance(absl::Seconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(session.End().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ended = true;
}

TEST(WorkerSessionServiceTest, AStreamThatIsClosedBeforeHelloIsRefused) {
  ServiceHarness service;
  RawSession session(service);
  session.stream->WritesDone();
  EXPECT_EQ(session.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(WorkerSessionServiceTest, ANewerSessionOfAWorkerTakesTheOldOnesPlace) {
  ServiceHarness service;
  GrpcWorker first(service.Dial(), std::make_unique<FakeWorker>("w", Incarnation(1)));
  ASSERT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_IDLE));
  GrpcWorker redialled(service.Dial(), std::make_unique<FakeWorker>("w", Incarnation(1)));
  EXPECT_EQ(first.WaitForEnd().error_code(), grpc::StatusCode::ABORTED);
  GrpcWorker restarted(service.Dial(), std::make_unique<FakeWorker>("w", Incarnation(2)));
  EXPECT_EQ(redialled.WaitForEnd().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_IDLE));
}

TEST(WorkerSessionServiceTest, AWorkerWhoseConnectionBreaksIsLost) {
  ServiceHarness service;
  service.AddWorker("w");
  ASSERT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_IDLE));
  service.DropWorker("w");
  EXPECT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_LOST));
}

// Bytes that are no WorkerMessage.
grpc::Status SayGarbage(const ServiceHarness& service, bool after_hello) {
  grpc::GenericStub stub(service.Dial());
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, "/stagecoach.v1.WorkerService/Session", &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const auto write = [&](const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    queue.Next(&tag, &ok);
  };
  if (after_hello) {
    write(HelloFrom("w").SerializeAsString());
    grpc::ByteBuffer welcome;
    call->Read(&welcome, nullptr);
    queue.Next(&tag, &ok);
    EXPECT_TRUE(ok);
  }
  write("\xff\xff\xff garbage");
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

TEST(WorkerSessionServiceTest, RefusesMessagesThatDoNotParse) {
  ServiceHarness service;
  EXPECT_EQ(SayGarbage(service, /*after_hello=*/false).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(SayGarbage(service, /*after_hello=*/true).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_LOST));
}

TEST(WorkerSessionServiceTest, EndsAWorkerThatDoesNotReadAndServesTheOthers) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.session.messages = 64;
  ServiceHarness service(options, {.host = "127.0.0.1", .port = 0, .path = ""});
  RawSession session(service);
  ASSERT_TRUE(session.stream->Write(HelloFrom("deaf")));
  // Each is answered; the answers fill the connection's window, then the queue.
  for (uint64_t i = 1; session.stream->Write(Heartbeat(i)); ++i) ASSERT_LT(i, 10'000'000u);
  EXPECT_TRUE(service.WaitForWorker("deaf", v1::WORKER_STATE_LOST));
  service.AddWorker("other");
  EXPECT_TRUE(service.WaitForWorker("other", v1::WORKER_STATE_IDLE));
  v1::CoordinatorMessage message;
  while (session.stream->Read(&message)) {
  }
  // It is not read from either, so that its lease may run out before its queue is full.
  const grpc::StatusCode code = session.stream->Finish().error_code();
  EXPECT_TRUE(code == grpc::StatusCode::RESOURCE_EXHAUSTED || code == grpc::StatusCode::DEADLINE_EXCEEDED) << code;
}

}  // namespace
}  // namespace stagecoach
