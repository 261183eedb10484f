#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENGINE_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENGINE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/transport/ucx/life_line.h"
#include "worker/transport/ucx/ucx_driver.h"
#include "worker/transport/ucx/ucx_edges.h"
#include "worker/transport/ucx/ucx_endpoint.h"
#include "worker/transport/ucx/ucx_peers.h"
#include "worker/transport/ucx/ucx_ports.h"
#include "worker/transport/ucx/ucx_worker.h"

namespace stagecoach {

// A transport's UCX worker with its peers and edges: hands to them what UCX says, looks after peers that go, and takes
// everything down. See UcxDriver::Engine for who calls it when.
class UcxEngine final : public UcxDriver::Engine, public UcxWorker::Events {
 public:
  static absl::StatusOr<std::unique_ptr<UcxEngine>> Create(const UcxTransportOptions& options,
                                                           const TransportFence& fence, WorkerRank rank);
  ~UcxEngine();

  const UcxEndpoint& endpoint() const { return endpoint_; }
  UcxPeers& peers() { return *peers_; }
  UcxEdges& edges() { return *edges_; }
  // With the turn.
  absl::Status Connect(std::span<const TransportPeer> list);
  // Once connected: takes no more connections.
  absl::Status ClosePorts();
  // Takes in what peers have said until now.
  void CatchUp();

  // UcxDriver::Engine
  void Start(UcxTransfer& transfer) override;
  bool Step() override;
  bool PrepareToSleep() override;
  UcxDriver::TimePoint next_step() const override;
  bool TakeSettled() override;
  void Stop(const absl::Status& reason) override;
  void Destroy() override;
  int event_fd() const override;
  void Wake() override;
  void ForgetWake() override;

  // UcxWorker::Events
  void OnMessage(const UcxMessage& message) override;
  void OnEndpointFailed(WorkerRank peer, ucs_status_t status) override;

 private:
  UcxEngine() = default;
  void LosePeer(UcxPeer& peer, absl::string_view why);
  // Those of which the life line says so. Whether there are any.
  bool LoseTheGone();
  void OnEdgeMessage(UcxPeer& peer, const UcxMessageHeader& header, const UcxMessage& message);
  void SayGoodbye(const absl::Status& reason);

  UcxPorts ports_;
  int wake_fd_ = -1;
  UcxEndpoint endpoint_;
  std::unique_ptr<UcxWorker> worker_;
  std::unique_ptr<LifeLine> life_line_;  // null: UCX itself says when a peer is gone
  std::unique_ptr<UcxPeers> peers_;
  std::unique_ptr<UcxEdges> edges_;
  std::chrono::microseconds retry_interval_{0};  // while sends are blocked and nobody says when they can go on
  bool has_stepped_ = false;                     // since somebody last went to sleep
  bool settled_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_UCX_ENGINE_H_
