#include "tests/testing/health/health_probe.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace stagecoach {
namespace {

constexpr std::chrono::seconds kLong{10};

// HealthCheckResponse has one field, its status.
std::string StatusIn(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return "nothing";
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (bytes == "\x08\x01") return "SERVING";
  return bytes == "\x08\x02" ? "NOT_SERVING" : "another status";
}

}  // namespace

std::string AskHealth(const std::string& address, const std::string& service) {
  // HealthCheckRequest likewise, its service.
  std::string request;
  if (!service.empty()) request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", bytes, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.ok() ? StatusIn(response) : std::to_string(status.error_code());
}

bool HealthBecomes(const std::string& address, const std::string& service, const std::string& answer) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (AskHealth(address, service) != answer) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace stagecoach
