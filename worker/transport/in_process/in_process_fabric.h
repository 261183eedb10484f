#ifndef STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_FABRIC_H_
#define STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_FABRIC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "stagecoach/v1/program.pb.h"
#include "worker/transport/in_process/in_process_edge.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// Where the transports of the workers of one process find each other: their endpoints and the edges between them. Made
// by whoever starts the workers, and shared by their transports. Thread-safe. Lock order: the fabric's, then an edge's.
class InProcessFabric {
 public:
  using MemberId = uint64_t;  // one life of a transport; never used again

  // Of the times at which transfers are complete; outlives the fabric.
  explicit InProcessFabric(const Clock& clock = Clock::Real()) : clock_(clock) {}

  MemberId Join(const TransportFence& fence, WorkerRank rank);
  static std::string EndpointOf(MemberId member);

  // See Transport.
  absl::Status Connect(MemberId member, std::span<const TransportPeer> peers, absl::Duration timeout);

  // An edge of which at least one end is at `member`.
  struct OpenedEdge {
    std::shared_ptr<InProcessEdge> edge;
    bool is_sender = false;
    bool is_receiver = false;
  };
  absl::StatusOr<OpenedEdge> Open(MemberId member, const v1::ChannelSpec& spec);

  // Fails all edges of `member`, also those that its peers would open later. Idempotent; the first reason counts.
  void Abort(MemberId member, const absl::Status& reason);
  // After Abort: forgets `member`.
  void Leave(MemberId member);

 private:
  struct Member {
    TransportFence fence;
    WorkerRank rank;
    absl::Status gone;            // ok: alive
    std::vector<MemberId> peers;  // by worker rank; empty before Connect
  };
  // From member, to member, from stage, to stage, kind.
  using EdgeKey = std::tuple<MemberId, MemberId, uint32_t, uint32_t, v1::ChannelKind>;

  absl::Status CheckPeers(const Member& member, MemberId id, std::span<const TransportPeer> peers,
                          std::vector<MemberId>& ids) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the peer at `rank` is there: false means that it may still come.
  absl::StatusOr<bool> HasConnected(const Member& member, WorkerRank rank, const TransportPeer& expected) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAlive(const Member& member, WorkerRank rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<OpenedEdge> OpenBetween(MemberId member, MemberId from, MemberId to, const v1::ChannelSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;

  Mutex mutex_;
  CondVar changed_;
  MemberId next_member_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<MemberId, Member> members_ ABSL_GUARDED_BY(mutex_);
  std::map<EdgeKey, std::shared_ptr<InProcessEdge>> edges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_FABRIC_H_
