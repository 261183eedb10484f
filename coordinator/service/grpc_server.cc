#include "coordinator/service/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "coordinator/service/rpc_metrics.h"

namespace stagecoach {
namespace {

constexpr int kMaxStreamsPerConnection = 64;
constexpr absl::Duration kKeepaliveTime = absl::Seconds(10);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(3);
constexpr absl::Duration kShortestPingInterval = absl::Seconds(5);  // of peers, whose keepalive is as ours
constexpr absl::Duration kMaxConnectionIdle = absl::Minutes(10);    // without a call
// For streams to be torn down once the server has ended them all.
constexpr absl::Duration kTearDownTimeout = absl::Seconds(10);

int Milliseconds(absl::Duration duration) { return static_cast<int>(absl::ToInt64Milliseconds(duration)); }

void Configure(grpc::ServerBuilder& builder, const ServiceOptions& options) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_session_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(kMaxConnectionIdle));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepaliveTime));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(kShortestPingInterval));
  // A message is not larger than it says it is.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  grpc::ResourceQuota quota("coordinator");
  quota.SetMaxThreads(options.max_requests);
  builder.SetResourceQuota(quota);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(Coordinator& coordinator, const ListenAddress& address,
                                                              const Clock& clock, const ServiceOptions& options) {
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<ConnectionAcceptor> connections, ConnectionAcceptor::Listen(address));
  auto server = absl::WrapUnique(new GrpcServer(coordinator, clock, options));
  STAGECOACH_RETURN_IF_ERROR(server->Serve(std::move(connections)));
  return server;
}

GrpcServer::GrpcServer(Coordinator& coordinator, const Clock& clock, const ServiceOptions& options)
    : options_(options),
      streams_(options_.max_streams, options_.check_interval),
      workers_({coordinator, streams_, clock, options_}),
      clients_({coordinator, streams_, clock, options_}) {}

absl::Status GrpcServer::Serve(std::unique_ptr<ConnectionAcceptor> connections) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(builder, options_);
  connection_input_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  if (options_.metrics != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(std::make_unique<RpcMetrics>(*options_.metrics));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  builder.RegisterService(&workers_);
  builder.RegisterService(&clients_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  connections_ = std::move(connections);
  connections_->Start([input = connection_input_.get()](UniqueDescriptor connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Release();
    input->HandleNewConnection(&parameters);
  });
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> GrpcServer::InProcessChannel(const grpc::ChannelArguments& arguments) {
  return server_->InProcessChannel(arguments);
}

void GrpcServer::Close() {
  if (server_ == nullptr) return;
  if (connections_ != nullptr) connections_->Stop();
  server_->GetHealthCheckService()->SetServingStatus(false);
}

void GrpcServer::Stop(absl::Duration grace) {
  if (server_ == nullptr) return;
  Close();
  streams_.EndAll(absl::UnavailableError("the coordinator stops"));
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(grace));
  server_->Wait();
  STAGECOACH_CHECK(streams_.WaitUntilEmpty(kTearDownTimeout));
  server_.reset();
}

}  // namespace stagecoach
