#ifndef STAGECOACH_WORKER_EXECUTOR_TRANSFER_SLOTS_H_
#define STAGECOACH_WORKER_EXECUTOR_TRANSFER_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/device/device.h"
#include "worker/executor/trace_ring.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// The buffers of one end of a channel at this worker, and what is under way in them. Of a channel between two stages of
// this worker both ends have the same buffers, and nothing is ever under way. Executor's thread only. Allocates nothing
// after construction.
class TransferSlots {
 public:
  struct Slot {
    std::span<std::byte> buffer = {};
    Transfer* pending = nullptr;  // posted, and not yet waited for
    uint64_t record = 0;          // of `pending`, in the trace
  };
  // Both outlive the slots. Without a ring nothing is recorded.
  struct Trace {
    TraceRing* ring = nullptr;
    const Clock& clock = Clock::Real();
  };

  // `channel` is null for one within this worker.
  TransferSlots(const v1::ChannelSpec& spec, uint32_t index, Channel* channel, std::vector<Slot> slots,
                const Trace& trace);

  const v1::ChannelSpec& spec() const { return spec_; }
  bool is_local() const { return channel_ == nullptr; }
  uint32_t index() const { return index_; }  // of the channel in the program
  size_t num_slots() const { return slots_.size(); }
  Slot& slot(size_t index) { return slots_[index]; }
  std::span<Slot> slots() { return slots_; }
  // Of the transfer of a micro-batch with this many samples.
  size_t TransferBytes(int64_t samples) const;

  // What the run so far has taken.
  void ClearTraffic() { bytes_ = 0, waited_ = absl::ZeroDuration(); }
  void AddWait(absl::Duration waited) { waited_ += waited; }
  uint64_t posted_bytes() const { return bytes_; }
  absl::Duration waited() const { return waited_; }

  // `ready`: after the device's last use of the buffer; null: at once. Not for a local channel.
  absl::Status PostSend(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes, const EventRef& ready);
  absl::Status PostRecv(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes, const EventRef& ready);
  // For what is pending in the slot, which there must be. Errors of Transfer::Wait.
  absl::Status Wait(Slot& slot, absl::Duration timeout);

 private:
  struct Post {
    size_t slot = 0;
    MicroBatchIndex micro_batch;
    size_t bytes = 0;
    bool sends = false;
  };
  TransferTag Tag(MicroBatchIndex micro_batch, Step step) const;
  // Before a post, which may use a Transfer again that is complete: when that was. Looks at the oldest posts only, up
  // to the first one that is not complete.
  void NoteCompleted();
  void SetPending(const Post& post, Transfer* transfer, absl::Duration posted);

  const v1::ChannelSpec spec_;
  const uint32_t index_;
  Channel* const channel_;
  const Trace trace_;
  std::vector<Slot> slots_;
  // Posts that are recorded and perhaps pending, the oldest first: a ring of at most as many as there are slots.
  struct RecordedPost {
    size_t slot = 0;
    uint64_t record = 0;
  };
  std::vector<RecordedPost> recorded_;
  size_t first_recorded_ = 0, num_recorded_ = 0;
  uint64_t bytes_ = 0;
  absl::Duration waited_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_TRANSFER_SLOTS_H_
