#include "common/health/health_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

constexpr char kReadiness[] = "";
constexpr char kLiveness[] = "live";
constexpr int kMaxStreamsPerConnection = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const ListenAddress& address, Options options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  // Another process that has the port is an error, and does not get half of the probes.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // Answers UNIMPLEMENTED. gRPC starts no server that has nothing but its own health service.
  auto others = std::make_unique<grpc::CallbackGenericService>();
  builder.RegisterCallbackGenericService(others.get());
  int port = 0;
  builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot serve health at ", address.ToString(), "; is the port taken?"));
  }
  server->GetHealthCheckService()->SetServingStatus(kReadiness, false);
  server->GetHealthCheckService()->SetServingStatus(kLiveness, true);
  ListenAddress bound = address;
  if (!bound.is_unix()) bound.port = static_cast<uint16_t>(port);
  return absl::WrapUnique(new HealthServer(std::move(bound), std::move(others), std::move(server), std::move(options)));
}

HealthServer::HealthServer(ListenAddress address, std::unique_ptr<grpc::CallbackGenericService> others,
                           std::unique_ptr<grpc::Server> server, Options options)
    : address_(std::move(address)),
      options_(std::move(options)),
      others_(std::move(others)),
      server_(std::move(server)),
      thread_("health", [this] { Loop(); }) {}

HealthServer::~HealthServer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopping_changed_.NotifyAll();
  }
  thread_.Join();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void HealthServer::Loop() {
  Liveness liveness(options_.patience);
  grpc::HealthCheckServiceInterface& service = *server_->GetHealthCheckService();
  while (true) {
    service.SetServingStatus(kReadiness, options_.is_ready());
    service.SetServingStatus(kLiveness, liveness.IsLive(options_.loop.turns(), options_.clock.Now()));
    const auto deadline = DeadlineIn(options_.interval);
    MutexLock lock(mutex_);
    while (!stopping_ && stopping_changed_.WaitUntil(mutex_, deadline)) {
    }
    if (stopping_) return;
  }
}

}  // namespace stagecoach
