#include "worker/transport/in_process/in_process_transport.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

class InProcessChannel final : public Channel {
 public:
  explicit InProcessChannel(InProcessFabric::OpenedEdge opened) : opened_(std::move(opened)) {}

  ~InProcessChannel() override {
    const absl::Status here = absl::AbortedError("the channel was closed");
    const absl::Status there = absl::UnavailableError("the peer closed the channel");
    opened_.edge->Fail(opened_.is_sender ? here : there, opened_.is_receiver ? here : there);
  }

  absl::StatusOr<Transfer*> Send(TransferTag tag, std::span<const std::byte> buffer, const EventRef& ready) override {
    if (!opened_.is_sender) return absl::InternalError(absl::StrCat("the sender of ", TagText(tag), " is not here"));
    // The edge reads a sender's buffer only.
    return opened_.edge->Post(EdgeEnd::kSender, {tag, const_cast<std::byte*>(buffer.data()), buffer.size(), ready});
  }

  absl::StatusOr<Transfer*> Recv(TransferTag tag, std::span<std::byte> buffer, const EventRef& ready) override {
    if (!opened_.is_receiver) {
      return absl::InternalError(absl::StrCat("the receiver of ", TagText(tag), " is not here"));
    }
    return opened_.edge->Post(EdgeEnd::kReceiver, {tag, buffer.data(), buffer.size(), ready});
  }

  std::string route() const override { return "memcpy"; }

 private:
  const InProcessFabric::OpenedEdge opened_;
};

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
    return std::make_unique<InProcessChannel>(std::move(opened));
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
