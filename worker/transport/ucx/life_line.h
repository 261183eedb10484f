#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"

namespace stagecoach {

// Tells within a host that a peer's process, or its transport, is gone: where peers share memory, UCX says nothing of
// it. A Unix socket that nobody writes to or accepts from: the kernel breaks the connections in its backlog when its
// owner goes, however that happens. Of a stopped process it says nothing.
class LifeLine {
 public:
  // `name`: this one's, unique in the network namespace.
  static absl::StatusOr<std::unique_ptr<LifeLine>> Create(uint64_t name);
  ~LifeLine();

  // Watches that of `peer`: the descriptor that it returns is readable when it is gone. UNAVAILABLE: it is already.
  absl::StatusOr<int> Watch(uint64_t name, WorkerRank peer);
  // Those that have gone since the last call. Their descriptors are closed.
  std::vector<WorkerRank> TakeGone();

 private:
  explicit LifeLine(int listener) : listener_(listener) {}

  const int listener_;
  std::vector<pollfd> watched_;
  std::vector<WorkerRank> peers_;  // of `watched_`
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_
