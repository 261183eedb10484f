#ifndef STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_
#define STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/device/device.h"

namespace stagecoach {

// What a transfer is: kind 4 | stage 12 | micro-batch 16 | step 32 bits, from the high end. Both ends compute it and
// the receiver checks it; the epoch is the channel's. `stage` is the sender's.
struct TransferTag {
  uint64_t bits = 0;
  bool operator==(const TransferTag&) const = default;

  static TransferTag Of(v1::ChannelKind kind, StageIndex stage, MicroBatchIndex micro_batch, Step step) {
    return {static_cast<uint64_t>(kind) << 60 | uint64_t{stage.value() & 0xfffu} << 48 |
            uint64_t{micro_batch.value() & 0xffffu} << 32 | (step.value() & 0xffffffffu)};
  }
};

// One transfer posted. Complete: the buffer may be reused (send) or read (receive). Owned by its channel and valid
// until the same slot is posted again, so that a step allocates nothing.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Host wait, asleep, until complete. DEADLINE_EXCEEDED | ABORTED (the transport was aborted) | UNAVAILABLE (peer
  // gone) | DATA_LOSS (tag or size is not what the other end posted).
  virtual absl::Status Wait(absl::Duration timeout) = 0;
  virtual bool complete() const = 0;
};

// One end of a directed stage edge and kind, in one epoch. First in first out. Rendezvous: a send may not complete
// before the matching receive is posted. Send and Recv post and return; more than `num_slots` outstanding posts at an
// end are INTERNAL (a bug of lowering), never a wait. Used by the executor's thread.
class Channel {
 public:
  virtual ~Channel() = default;
  // `ready`: the buffer may be read (send) or overwritten (receive) when this event is complete.
  virtual absl::StatusOr<Transfer*> Send(TransferTag tag, std::span<const std::byte> buffer, const EventRef& ready) = 0;
  virtual absl::StatusOr<Transfer*> Recv(TransferTag tag, std::span<std::byte> buffer, const EventRef& ready) = 0;
  virtual std::string route() const = 0;  // what the edge really got: "memcpy", "sysv+cma", "tcp", "nvlink"
};

// Who speaks: carried in every handshake.
struct TransportFence {
  JobId job;
  Epoch epoch;
  Incarnation incarnation;
};

struct TransportPeer {
  Incarnation incarnation;
  std::string endpoint;
};

struct TransportCapabilities {
  bool device_memory = false;  // buffers may be device memory; otherwise the caller stages through host memory
};

// All channels of one worker in one epoch. A new epoch is a new Transport: nothing is reset in place, Abort is final,
// and destruction does not block longer than a second. A transport that needs a progress thread owns it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const TransportCapabilities& capabilities() const = 0;
  virtual std::string endpoint() const = 0;  // opaque; the coordinator carries it to the peers
  // Before Open. Peers by worker rank. A peer of another job, epoch or incarnation is refused with ABORTED.
  // DEADLINE_EXCEEDED.
  virtual absl::Status Connect(std::span<const TransportPeer> peers, absl::Duration timeout) = 0;
  // The end of `spec` that is here: the sender's when spec.from_worker_rank is this worker's rank. When both ends are
  // here, one channel serves both.
  virtual absl::StatusOr<std::unique_ptr<Channel>> Open(const v1::ChannelSpec& spec) = 0;
  // Any thread. Every waiter here, and every peer waiting for this worker, returns `reason` or UNAVAILABLE within 100
  // ms.
  virtual void Abort(const absl::Status& reason) = 0;
};

using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<Transport>>(const TransportFence& fence, WorkerRank rank)>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_
