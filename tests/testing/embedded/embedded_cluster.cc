#include "tests/testing/embedded/embedded_cluster.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/plan/planner.h"
#include "worker/registry/model/model_registry.h"
#include "worker/session/in_process_session.h"
#include "worker/transport/in_process/in_process_transport.h"

namespace stagecoach {
namespace {

Incarnation NewIncarnation() {
  std::random_device random;
  return Incarnation(uint64_t{random()} << 32 | random());
}

// Of one worker, but for who it is. What the device is able to do is asked of a device that is then thrown away: a
// job's device belongs to the executor's thread.
absl::StatusOr<AgentOptions> DescribeWorker(const EmbeddedCluster::Options& options, uint32_t threads) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, options.device(DeviceOptions{.threads = 1}));
  const DeviceCapabilities& capabilities = device->capabilities();
  AgentOptions agent{.files = options.files};
  agent.numerics_class = capabilities.numerics_class;
  agent.device = capabilities.kind;
  agent.memory_bytes =
      options.worker_memory_bytes != 0 ? options.worker_memory_bytes : capabilities.memory_bytes / options.num_workers;
  agent.max_threads = std::max(threads, std::thread::hardware_concurrency());
  agent.device_factory = options.device;
  UseModels(agent);
  return agent;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Create(Options options) {
  auto cluster = absl::WrapUnique(new EmbeddedCluster(std::move(options)));
  // Nothing comes between workers and a coordinator of the same process.
  const FleetOptions fleet{.lease = absl::InfiniteDuration(), .suspect_grace = absl::ZeroDuration()};
  STAGECOACH_ASSIGN_OR_RETURN(cluster->coordinator_, Coordinator::Create({.store = *cluster->store_,
                                                                          .clock = Clock::Real(),
                                                                          .files = cluster->options_.files,
                                                                          .planner = PlanJob,
                                                                          .fleet = fleet}));
  return cluster;
}

EmbeddedCluster::EmbeddedCluster(Options options)
    : options_(std::move(options)),
      store_(std::make_unique<MemoryStore>()),
      fabric_(std::make_shared<InProcessFabric>()) {}

EmbeddedCluster::~EmbeddedCluster() {
  workers_.clear();
  if (coordinator_ != nullptr) coordinator_->Stop();
}

absl::Status EmbeddedCluster::StartWorkers(uint32_t threads) {
  STAGECOACH_ASSIGN_OR_RETURN(AgentOptions agent, DescribeWorker(options_, threads));
  agent.transport_factory = InProcessTransportFactory(fabric_);
  for (uint32_t index = 0; index < options_.num_workers; ++index) {
    agent.worker = WorkerId(absl::StrCat("worker-", index));
    agent.incarnation = NewIncarnation();
    workers_.push_back(
        Agent::Start(agent, [this, incarnation = agent.incarnation] { return OpenSession(incarnation); }));
  }
  return absl::OkStatus();
}

// The worker's first message, Hello, connects it; everything after goes to the coordinator's queue.
std::unique_ptr<Session> EmbeddedCluster::OpenSession(Incarnation incarnation) {
  auto to_worker = std::make_shared<ReceivedMessages>(InProcessSession::kQueueCapacity);
  const auto session = std::make_shared<std::atomic<uint64_t>>();  // 0: not connected
  const auto deliver = [coordinator = coordinator_.get(), incarnation, to_worker, session](v1::WorkerMessage message) {
    if (!message.has_hello()) return coordinator->Deliver(SessionId(session->load()), std::move(message));
    const absl::StatusOr<SessionId> connected = coordinator->ConnectWorker(
        message.hello(), incarnation,
        {.send = [to_worker](v1::CoordinatorMessage reply) { return to_worker->Push(std::move(reply)); },
         .end = [to_worker](const absl::Status& why) { to_worker->End(why); }});
    if (connected.ok()) session->store(connected->value());
    return connected.status();
  };
  const auto on_close = [coordinator = coordinator_.get(), session] {
    // It may have been stopped.
    coordinator->EndSession(SessionId(session->load()), absl::UnavailableError("the worker's session ended"))
        .IgnoreError();
  };
  return std::make_unique<InProcessSession>(to_worker, deliver, on_close);
}

}  // namespace stagecoach
