#include "worker/transport/in_process/in_process_transport.h"

#include <string>
#include <utility>

#include "common/status_macros.h"
#include "worker/transport/in_process/in_process_channel.h"

namespace stagecoach {
namespace {

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessFabric> fabric, const TransportFence& fence, WorkerRank rank)
      : fabric_(std::move(fabric)), member_(fabric_->Join(fence, rank)) {}

  ~InProcessTransport() override {
    fabric_->Abort(member_, absl::AbortedError("the transport was destroyed"));
    fabric_->Leave(member_);
  }

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  std::string endpoint() const override { return InProcessFabric::EndpointOf(member_); }

  absl::Status Connect(std::span<const TransportPeer> peers, absl::Duration timeout) override {
    return fabric_->Connect(member_, peers, timeout);
  }

  absl::StatusOr<std::unique_ptr<Channel>> Open(const v1::ChannelSpec& spec) override {
    STAGECOACH_ASSIGN_OR_RETURN(InProcessFabric::OpenedEdge opened, fabric_->Open(member_, spec));
    return std::make_unique<InProcessChannel>(std::move(opened.edge), opened.is_sender, opened.is_receiver);
  }

  void Abort(const absl::Status& reason) override { fabric_->Abort(member_, reason); }

 private:
  const std::shared_ptr<InProcessFabric> fabric_;
  const InProcessFabric::MemberId member_;
  const TransportCapabilities capabilities_;
};

}  // namespace

TransportFactory InProcessTransportFactory(std::shared_ptr<InProcessFabric> fabric) {
  return [fabric = std::move(fabric)](const TransportFence& fence,
                                      WorkerRank rank) -> absl::StatusOr<std::unique_ptr<Transport>> {
    return std::make_unique<InProcessTransport>(fabric, fence, rank);
  };
}

}  // namespace stagecoach
