#include "worker/server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/build_version.h"
#include "common/host_memory_size.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/registry/device/device_registry.h"
#include "worker/registry/model/model_registry.h"
#include "worker/session/grpc_session.h"

namespace stagecoach {
namespace {

// So that whoever looks sees the agent's loop turn, and series of a job go in time.
constexpr absl::Duration kLongestSleep = absl::Seconds(1);

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

// The limit is the user's to choose up to what there is: what is free now (capabilities) is taken by others now.
absl::Status LimitMemory(uint64_t limit, const DeviceCapabilities& capabilities, AgentOptions& agent) {
  const uint64_t free = capabilities.memory_bytes;
  const uint64_t installed = capabilities.host_addressable ? std::max<uint64_t>(free, InstalledMemoryBytes()) : free;
  if (limit > installed) {
    return absl::InvalidArgumentError(absl::StrCat("--memory: the worker is given ", limit, " bytes, but device ",
                                                   capabilities.kind, " has ", installed));
  }
  if (limit > free) {
    spdlog::warn("--memory: the worker is given {} bytes, but of device {} only {} are free now; a job may fail for it",
                 limit, capabilities.kind, free);
  }
  agent.memory_bytes = limit > 0 ? limit : free;
  return absl::OkStatus();
}

// What the device is able to do is asked of one that is then thrown away: a job's belongs to the executor's thread.
absl::Status DescribeDevice(const ServerOptions& options, AgentOptions& agent) {
  STAGECOACH_ASSIGN_OR_RETURN(agent.device_factory, FindDevice(options.device));
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, agent.device_factory(DeviceOptions{.threads = 1}));
  const DeviceCapabilities& capabilities = device->capabilities();
  agent.device = capabilities.kind;
  agent.numerics_class = capabilities.numerics_class;
  if (options.simulated_costs.has_value()) UseSimulatedStages(agent, *options.simulated_costs);
  return LimitMemory(options.memory_bytes, capabilities, agent);
}

void DescribeProcess(const ServerOptions& options, AgentOptions& agent) {
  agent.incarnation = Incarnation(std::max<uint64_t>(RandomNumber(), 1));
  agent.host = HostName();
  agent.pid = static_cast<uint64_t>(getpid());
  agent.build_version = BuildVersion();
  const std::string suffix = absl::StrCat(absl::Hex(RandomNumber() & 0xffffffff, absl::kZeroPad8));
  agent.worker = WorkerId(options.name.empty() ? absl::StrCat(agent.host, "-", suffix) : options.name);
  agent.max_threads = options.max_threads > 0 ? options.max_threads : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  AgentOptions agent;
  UseModels(agent);
  STAGECOACH_RETURN_IF_ERROR(DescribeDevice(options, agent));
  STAGECOACH_ASSIGN_OR_RETURN(agent.transport_factory, FindTransport(options.transport, options.transport_settings));
  DescribeProcess(options, agent);
  agent.session.dial_timeout = options.dial_timeout;
  agent.session.orphan_timeout = options.orphan_timeout;
  agent.leave_timeout = options.leave_timeout;
  agent.transfer_timeout = options.transfer_timeout;
  agent.log = options.log.get();
  agent.on_end = options.on_end;
  const std::string name = agent.worker.value();
  spdlog::info("worker {}: device {} ({}), up to {} threads and {} bytes; dialling {}", name, agent.device,
               agent.numerics_class, agent.max_threads, agent.memory_bytes, options.coordinator.ToString());
  auto server = absl::WrapUnique(new Server(name, options.log));
  if (options.metrics.has_value()) {
    STAGECOACH_ASSIGN_OR_RETURN(server->registry_, MetricRegistry::Create(MetricSource::kWorker));
    server->metrics_ = std::make_unique<WorkerMetrics>(*server->registry_, Clock::Real(), agent.memory_bytes);
  }
  agent.observer = server->metrics_.get();
  agent.beat = &server->beat_;
  agent.longest_sleep = kLongestSleep;
  const GrpcSessionOptions session{.address = options.coordinator.ToString()};
  server->agent_ = Agent::Start(std::move(agent), [session] { return DialGrpcSession(session); });
  if (options.metrics.has_value()) STAGECOACH_RETURN_IF_ERROR(server->StartMetrics(*options.metrics));
  if (options.health.has_value()) STAGECOACH_RETURN_IF_ERROR(server->StartHealth(*options.health));
  return server;
}

absl::Status Server::StartMetrics(const ListenAddress& address) {
  STAGECOACH_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(*registry_, address));
  spdlog::info("worker {}: metrics at {}", name_, metrics_server_->address().ToString());
  return absl::OkStatus();
}

absl::Status Server::StartHealth(const ListenAddress& address) {
  const auto is_ready = [this] { return agent_->status().in_session && !is_leaving_; };
  STAGECOACH_ASSIGN_OR_RETURN(health_, HealthServer::Start(address, {.loop = beat_, .is_ready = is_ready}));
  spdlog::info("worker {}: health at {}", name_, health_->address().ToString());
  return absl::OkStatus();
}

void Server::Leave(const std::string& reason) {
  is_leaving_ = true;
  agent_->Leave(reason);
}

}  // namespace stagecoach
