#ifndef STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_CLUSTER_H_
#define STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/store.h"
#include "worker/agent/agent.h"
#include "worker/device/device_factory.h"
#include "worker/session.h"
#include "worker/transport/in_process/in_process_fabric.h"

namespace stagecoach {

// A coordinator and N workers inside this process, each with threads of its own, talking through in-process sessions
// and the in-process transport. The same code path as a cluster but for those two.
class EmbeddedCluster {
 public:
  struct Options {
    uint32_t num_workers = 1;
    DeviceFactory device;              // of every worker
    uint64_t worker_memory_bytes = 0;  // that each says it has; 0: its share of the device's
    FileSystem& files = FileSystem::Posix();
  };
  // The coordinator; no worker yet.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Create(Options options);
  ~EmbeddedCluster();

  Coordinator& coordinator() { return *coordinator_; }
  uint32_t num_workers() const { return options_.num_workers; }
  // Once. Each may use as many threads as the machine has, and `threads` at least.
  absl::Status StartWorkers(uint32_t threads);

 private:
  explicit EmbeddedCluster(Options options);
  std::unique_ptr<Session> OpenSession(Incarnation incarnation);

  const Options options_;
  const std::unique_ptr<Store> store_;
  const std::shared_ptr<InProcessFabric> fabric_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<Agent>> workers_;  // last: they use all of the above
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_EMBEDDED_EMBEDDED_CLUSTER_H_
