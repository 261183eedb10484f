#ifndef STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_EDGE_H_
#define STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_EDGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "worker/device/device.h"
#include "worker/transport/transfer_tag.h"
#include "worker/transport/transport.h"

namespace stagecoach {

enum class EdgeEnd { kSender = 0, kReceiver = 1 };

// What an end posts. A receiver's buffer is written, a sender's only read.
struct EdgePost {
  TransferTag tag;
  std::byte* buffer = nullptr;
  size_t bytes = 0;
  EventRef ready;
};

class InProcessEdge;

// A place in an end's ring of posts. All but `edge` and `end` is guarded by the edge's mutex.
class InProcessTransfer final : public Transfer {
 public:
  InProcessTransfer(InProcessEdge& edge, EdgeEnd end) : edge_(edge), end_(end) {}
  absl::Status Wait(absl::Duration timeout) override;
  bool complete() const override;
  absl::Duration completed_at() const override;

 private:
  friend class InProcessEdge;
  enum class State { kIdle, kPosted, kCopying, kComplete };

  InProcessEdge& edge_;
  const EdgeEnd end_;
  State state_ = State::kIdle;
  EdgePost post_;
  absl::Duration completed_at_;
};

// Where the two ends of one directed edge meet. Both ends post; whoever posts second copies, on its own thread and
// outside the lock, and both transfers complete. Thread-safe. Allocates in Open only.
class InProcessEdge {
 public:
  InProcessEdge(std::string name, const Clock& clock) : name_(std::move(name)), clock_(clock) {}

  absl::Status Open(EdgeEnd end, uint32_t num_slots);  // ALREADY_EXISTS
  absl::StatusOr<Transfer*> Post(EdgeEnd end, EdgePost post);

  // Final. Ends that have not failed before return these statuses to waiters and to posts from now on. When it has
  // returned, no posted buffer is read or written any more.
  void Fail(const absl::Status& sender, const absl::Status& receiver);

 private:
  friend class InProcessTransfer;
  struct Side {
    std::vector<InProcessTransfer> ring;  // [num_slots]; post k is in place k % num_slots
    uint64_t num_posted = 0;
    absl::Status failure;
  };

  Side& side(EdgeEnd end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sides_[static_cast<size_t>(end)]; }
  absl::Status Wait(InProcessTransfer& transfer, absl::Duration timeout);
  bool IsComplete(const InProcessTransfer& transfer);
  absl::Duration CompletedAt(const InProcessTransfer& transfer);
  bool HasFailed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies pairs as long as both ends have posted one. Gives up the lock while it copies.
  void Match() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPair(const EdgePost& sent, const EdgePost& received) const;
  absl::Status Copy(const EdgePost& sent, const EdgePost& received) const;
  absl::Status WaitReady(const EdgePost& post) const;

  const std::string name_;
  const Clock& clock_;
  // Read by a copy under way, which therefore ends soon after Fail.
  std::atomic<bool> failed_{false};

  Mutex mutex_;
  CondVar changed_;
  std::array<Side, 2> sides_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_matched_ ABSL_GUARDED_BY(mutex_) = 0;
  bool copying_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_EDGE_H_
