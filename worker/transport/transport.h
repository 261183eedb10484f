#ifndef STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_
#define STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_

#include <cstddef>
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
#include "worker/transport/transfer_tag.h"

namespace stagecoach {

// One transfer posted. Complete: the buffer may be reused (send) or read (receive). Owned by its channel and valid
// until `num_slots` more transfers have been posted at the same end, so that a step allocates nothing.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Host wait, asleep, until complete. DEADLINE_EXCEEDED (still posted: the buffer stays in use) | ABORTED (the
  // transport was aborted) | UNAVAILABLE (peer gone) | DATA_LOSS (tag or size is not what the other end posted, naming
  // both). After any error but DEADLINE_EXCEEDED the transport uses the buffer no more.
  virtual absl::Status Wait(absl::Duration timeout) = 0;
  virtual bool complete() const = 0;  // successfully
  // When that was, by Clock::Real() unless the transport was given another; only once it is complete, and until more
  // is posted at this end.
  virtual absl::Duration completed_at() const = 0;
};

// One end of a directed stage edge and kind, in one epoch. First in first out. Rendezvous: a send may not complete
// before the matching receive is posted. Send and Recv post and return; more than `num_slots` outstanding posts at an
// end are INTERNAL (a bug of lowering), never a wait. A channel that has failed stays failed: posts return the error.
// Used by the executor's thread. Destruction ends the use of every posted buffer, and fails the other end.
class Channel {
 public:
  virtual ~Channel() = default;
  // `ready`: the buffer may be read (send) or overwritten (receive) when this event is complete; null: at once.
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
// and destruction, which counts as abort, does not block longer than a second. A transport that needs a progress thread
// owns it. Used by the executor's thread, but for Abort.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const TransportCapabilities& capabilities() const = 0;
  virtual std::string endpoint() const = 0;  // opaque; the coordinator carries it to the peers
  // Before Open, once. Peers by worker rank, oneself included. Returns when every peer has called Connect too. ABORTED:
  // a peer is of another job, epoch or incarnation, or this transport was aborted. UNAVAILABLE: a peer is gone.
  // DEADLINE_EXCEEDED: a peer did not come, named by rank.
  virtual absl::Status Connect(std::span<const TransportPeer> peers, absl::Duration timeout) = 0;
  // The end of `spec` that is here: the sender's when spec.from_worker_rank is this worker's rank. When both ends are
  // here, one channel serves both. INVALID_ARGUMENT: neither end is here, or there is no such peer. ALREADY_EXISTS.
  // FAILED_PRECONDITION: not connected. UNAVAILABLE and ABORTED as for a transfer.
  virtual absl::StatusOr<std::unique_ptr<Channel>> Open(const v1::ChannelSpec& spec) = 0;
  // Any thread. Every waiter here, and every peer waiting for this worker, returns `reason` or UNAVAILABLE within 100
  // ms. When it has returned, no posted buffer of this worker is read or written any more.
  virtual void Abort(const absl::Status& reason) = 0;
};

using TransportFactory =
    std::function<absl::StatusOr<std::unique_ptr<Transport>>(const TransportFence& fence, WorkerRank rank)>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_TRANSPORT_H_
