#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSFER_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "worker/device/device.h"
#include "worker/transport/transport.h"
#include "worker/transport/transport_errors.h"
#include "worker/transport/ucx/peer_memory.h"
#include "worker/transport/ucx/ucx_message.h"

namespace stagecoach {

class UcxDriver;
class UcxEnd;

// A place in an end's ring of posts. The poster fills it in; from then on it is of whoever has the turn, but for the
// state. Only who has the turn reads or writes the buffer, while the transfer is posted.
class UcxTransfer final : public Transfer {
 public:
  explicit UcxTransfer(UcxEnd& end) : end_(end) {}
  absl::Status Wait(absl::Duration timeout) override;
  bool complete() const override { return state_.load(std::memory_order_acquire) == State::kComplete; }
  absl::Duration completed_at() const override { return completed_at_; }
  UcxEnd& end() const { return end_; }

 private:
  friend class UcxEnd;
  friend class UcxEdges;
  enum class State { kIdle, kPosted, kComplete, kFailed };

  bool is_posted() const { return state_.load(std::memory_order_acquire) == State::kPosted; }
  void Settle(State state) { state_.store(state, std::memory_order_release); }
  void Complete() {
    completed_at_ = Clock::Real().Now();
    Settle(State::kComplete);
  }
  PostedTransfer what() const { return {tag_, bytes_}; }

  UcxEnd& end_;
  std::atomic<State> state_{State::kIdle};
  TransferTag tag_;
  std::byte* buffer_ = nullptr;  // of a send: read only
  size_t bytes_ = 0;
  EventRef ready_;
  uint64_t sequence_ = 0;
  size_t moved_bytes_ = 0;
  uint64_t source_ = 0;          // of a receive that is read: where, at the peer
  absl::Duration completed_at_;  // handed over with the state
};

// One end, here, of an edge whose other end is at another worker. Two sides: Post and the transfers' Wait are for the
// executor; everything else is for whoever has the turn.
class UcxEnd {
 public:
  struct Place {
    std::string name;  // "activation channel from stage 0 ..."
    UcxEdgeKey key;
    WorkerRank peer;
    uint32_t number = 0;  // under which the peer addresses it
    std::string route;
  };

  UcxEnd(Place place, uint32_t num_slots, UcxDriver& driver);

  const Place& place() const { return place_; }
  bool is_sender() const { return place_.key.is_sender; }
  absl::Status failure() const;

  absl::StatusOr<Transfer*> Post(PostedTransfer what, std::byte* buffer, const EventRef& ready);

 private:
  friend class UcxTransfer;
  friend class UcxEdges;

  UcxTransfer& at(uint64_t sequence) { return *ring_[sequence % ring_.size()]; }
  // The first status counts. Ends all transfers.
  void Fail(const absl::Status& status);
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }

  const Place place_;
  UcxDriver& driver_;
  std::vector<std::unique_ptr<UcxTransfer>> ring_;  // [num_slots]; post k is in place k % num_slots
  uint64_t num_posted_ = 0;                         // of the executor
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  MemoryGuard guard_;  // of the buffers; cleared before they are given back

  // Of whoever has the turn. num_moved_ <= num_cleared_ <= num_seen_.
  uint64_t num_seen_ = 0;     // posts
  uint64_t num_cleared_ = 0;  // of which the ready events are complete
  uint64_t num_moved_ = 0;    // of which all data or the offer (sender), or the ready record (receiver) has left
  bool peer_is_open_ = false;
  uint32_t peer_number_ = 0;
  uint64_t peer_guard_address_ = 0, peer_guard_value_ = 0;
  std::vector<PostedTransfer> peer_ready_;  // sender: ring of what the receiver has posted
  uint64_t num_peer_ready_ = 0;
  bool is_listed_ = false;  // these: in the lists of UcxEdges
  bool is_announcing_ = false;
  bool waits_for_event_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_TRANSFER_H_
