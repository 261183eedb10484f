#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PEERS_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PEERS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/transport/transport.h"
#include "worker/transport/ucx/peer_memory.h"
#include "worker/transport/ucx/ucx_endpoint.h"
#include "worker/transport/ucx/ucx_message.h"
#include "worker/transport/ucx/ucx_worker.h"

namespace stagecoach {

// Another worker of the epoch, or a stranger that is refused.
struct UcxPeer {
  WorkerRank rank;
  Incarnation incarnation;
  UcxEndpoint endpoint;
  ucp_ep_h connection = nullptr;
  PeerMemory memory{0};  // mode cma
  std::string route;
  bool has_said_hello = false;
  bool has_welcomed = false;        // our hello
  absl::Status gone;                // OK: as far as is known, it is there
  std::deque<std::string> letters;  // that have not left yet
};

// The connections to the other workers of the epoch, and the handshake on them: each side says hello on its own
// connection to the other, which welcomes or refuses it. Done when everybody has said hello and has welcomed this
// worker. For whoever has the turn, but for `is_settled`.
class UcxPeers {
 public:
  UcxPeers(const TransportFence& fence, WorkerRank rank, UcxEndpoint self, UcxWorker& worker);

  // Once. Connects, says hello, and takes up what has come before. See Transport::Connect for the errors.
  absl::Status Start(std::span<const TransportPeer> list);
  bool is_settled() const { return settled_.load(std::memory_order_acquire); }
  // Not settled yet: DEADLINE_EXCEEDED.
  absl::Status Result(absl::Duration timeout) const;

  // The peer at `rank`, or null: there is none, or it is this worker itself.
  UcxPeer* Find(uint32_t rank);
  // As Find, of those that have said hello.
  UcxPeer* FindConnected(uint32_t rank);
  size_t size() const { return peers_.size(); }
  WorkerRank self() const { return rank_; }

  void OnHello(const UcxMessage& message, uint64_t to_token);
  void OnWelcome(UcxPeer& peer);
  void OnRefused(uint32_t from, const std::string& text);
  // The first reason counts. False: it was gone already.
  bool MarkGone(UcxPeer& peer, absl::string_view why);

  // Messages that need not be fast, in order. They leave in Deliver, and are dropped when the peer is gone.
  void Send(UcxPeer& peer, std::string message);
  // Whether any left.
  bool Deliver();
  bool has_letters() const { return num_letters_ > 0; }

 private:
  absl::Status Parse(std::span<const TransportPeer> list);
  absl::Status Connect(UcxPeer& peer);
  void Judge(const UcxHello& hello);
  void Refuse(const UcxHello& hello, const absl::Status& why);
  bool DeliverTo(UcxPeer& peer);
  void DropLetters(UcxPeer& peer);
  void CheckComplete();
  void Settle(const absl::Status& result);

  const TransportFence fence_;
  const WorkerRank rank_;
  const UcxEndpoint self_;
  UcxWorker& worker_;
  bool started_ = false;
  std::vector<UcxPeer> peers_;                       // by worker rank
  std::vector<UcxHello> early_hellos_;               // before Start
  std::vector<std::unique_ptr<UcxPeer>> strangers_;  // that were refused
  size_t num_letters_ = 0;
  absl::Status result_;
  std::atomic<bool> settled_{false};
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_PEERS_H_
