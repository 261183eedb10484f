#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_

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

  // Watches that of `peer`. UNAVAILABLE: it is gone.
  absl::Status Watch(uint64_t name, WorkerRank peer);
  // Also watches whether `descriptor` is readable, for who sleeps on event_fd.
  absl::Status AddSource(int descriptor);
  // Readable when a peer is gone, or the source is.
  int event_fd() const { return epoll_; }
  // Those that have gone since the last call.
  std::vector<WorkerRank> TakeGone();

 private:
  LifeLine() = default;

  int listener_ = -1;
  int epoll_ = -1;
  std::vector<int> watched_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_LIFE_LINE_H_
