#include "coordinator/service/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "common/protocol_version.h"
#include "common/unique_descriptor.h"
#include "coordinator/service/testing/service_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

ListenAddress Local(uint16_t port) { return {.host = "127.0.0.1", .port = port, .path = ""}; }
ListenAddress Unix(const std::string& path) { return {.host = "", .port = 0, .path = path}; }

bool Answers(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::CoordinatorService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetVersionResponse response;
  return stub->GetVersion(&context, {}, &response).ok();
}

// One message to a method, and one back, as bytes: for services whose messages are not ours.
std::string Exchange(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice bytes;
  EXPECT_TRUE(ok && response.DumpToSingleSlice(&bytes).ok());
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

TEST(GrpcServerTest, IsHealthyWhileItServes) {
  ServiceHarness service;
  EXPECT_EQ(Exchange(service.Dial(), "/grpc.health.v1.Health/Check", ""), std::string("\x08\x01", 2));  // SERVING
}

TEST(GrpcServerTest, DescribesItsServices) {
  ServiceHarness service;
  const std::string list_services("\x3a\x01*", 3);
  const std::string services =
      Exchange(service.Dial(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", list_services);
  EXPECT_THAT(services, HasSubstr("stagecoach.v1.WorkerService"));
  EXPECT_THAT(services, HasSubstr("stagecoach.v1.CoordinatorService"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

TEST(GrpcServerTest, ServesAtAUnixSocketOfThisUserAlone) {
  const TemporaryDirectory directory;
  ServiceHarness service(ServiceHarness::DefaultOptions(), Unix(directory.Path("socket")));
  EXPECT_TRUE(Answers(service.Dial()));
  struct stat info;
  ASSERT_EQ(stat(directory.Path("socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(GrpcServerTest, ServesInItsOwnProcess) {
  ServiceHarness service;
  EXPECT_TRUE(Answers(service.server->InProcessChannel()));
}

absl::Status StartSecond(ServiceHarness& service, const ListenAddress& address) {
  return GrpcServer::Start(*service.coordinator, address, service.clock).status();
}

TEST(GrpcServerTest, APortInUseIsRefusedByName) {
  ServiceHarness service;
  const absl::Status status = StartSecond(service, Local(service.server->address().port));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(service.server->address().ToString()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use"));
  EXPECT_TRUE(Answers(service.Dial()));
}

TEST(GrpcServerTest, ASocketInUseIsNotTakenAway) {
  const TemporaryDirectory directory;
  ServiceHarness service(ServiceHarness::DefaultOptions(), Unix(directory.Path("socket")));
  const absl::Status status = StartSecond(service, Unix(directory.Path("socket")));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(Answers(service.Dial()));
}

TEST(GrpcServerTest, ASocketThatADeadProcessLeftIsTaken) {
  const TemporaryDirectory directory;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strcpy(name.sun_path, directory.Path("socket").c_str());
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  close(dead);
  ServiceHarness service(ServiceHarness::DefaultOptions(), Unix(directory.Path("socket")));
  EXPECT_TRUE(Answers(service.Dial()));
}

TEST(GrpcServerTest, WhatIsNoSocketIsLeftAlone) {
  ServiceHarness service;
  const std::string path = service.directory.Path("file");
  std::ofstream(path) << "precious";
  EXPECT_EQ(StartSecond(service, Unix(path)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::ifstream(path).peek(), 'p');
  EXPECT_EQ(StartSecond(service, Unix(service.directory.Path("nowhere/socket"))).code(), absl::StatusCode::kNotFound);
}

TEST(GrpcServerTest, StopEndsAllStreamsAndTellsThemWhy) {
  ServiceHarness service;
  GrpcWorker& worker = service.AddWorker("w");
  ASSERT_TRUE(service.WaitForWorker("w", v1::WORKER_STATE_IDLE));
  const std::string job = service.Submit(service.Spec("job", 2));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::FollowJobRequest request;
  request.set_job(job);
  const auto stream = service.client().FollowJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(stream->Read(&event));

  service.server->Stop(absl::Seconds(20));
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(worker.WaitForEnd().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(Answers(service.Dial()));
}

TEST(GrpcServerTest, StopWaitsForNobodyWhoDoesNotListen) {
  ServiceHarness service;
  const auto stub = v1::WorkerService::NewStub(service.Dial());
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  v1::WorkerMessage hello;
  hello.mutable_fence()->set_incarnation(1);
  *hello.mutable_hello() = FakeWorker("deaf", Incarnation(1)).hello();
  hello.mutable_hello()->set_protocol_version(kProtocolVersion);
  ASSERT_TRUE(stream->Write(hello));
  ASSERT_TRUE(service.WaitForWorker("deaf", v1::WORKER_STATE_IDLE));
  service.server->Stop(absl::ZeroDuration());
  v1::CoordinatorMessage message;
  while (stream->Read(&message)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
}

TEST(GrpcServerTest, AConnectionThatSaysNothingIsClosed) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.handshake_timeout = absl::Milliseconds(50);
  ServiceHarness service(options, Local(0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(service.server->address().port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueDescriptor silent(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(silent.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(silent.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte;
  ssize_t got = 1;
  while (got > 0) got = recv(silent.get(), &byte, 1, 0);  // the server's settings
  EXPECT_TRUE(got == 0 || errno == ECONNRESET) << std::strerror(errno);
}

// A message of gzip may be a thousand times larger than the limit that it passed.
TEST(GrpcServerTest, RefusesCompressedMessages) {
  ServiceHarness service;
  grpc::ClientContext context;
  SetDeadline(context);
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_name(std::string(1 << 20, 'x'));
  v1::SubmitJobResponse response;
  EXPECT_EQ(service.client().SubmitJob(&context, request, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(GrpcServerTest, RefusesStreamsBeyondItsLimit) {
  ServiceOptions options = ServiceHarness::DefaultOptions();
  options.max_streams = 1;
  ServiceHarness service(options, Local(0));
  GrpcWorker& first = service.AddWorker("a");
  ASSERT_TRUE(service.WaitForWorker("a", v1::WORKER_STATE_IDLE));
  EXPECT_EQ(service.AddWorker("b").WaitForEnd().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(first.SendHeartbeat(1));
}

}  // namespace
}  // namespace stagecoach
