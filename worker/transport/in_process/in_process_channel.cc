#include "worker/transport/in_process/in_process_channel.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {

InProcessChannel::InProcessChannel(std::shared_ptr<InProcessEdge> edge, bool is_sender, bool is_receiver)
    : edge_(std::move(edge)), is_sender_(is_sender), is_receiver_(is_receiver) {}

InProcessChannel::~InProcessChannel() {
  const absl::Status here = absl::AbortedError("the channel was closed");
  const absl::Status there = absl::UnavailableError("the peer closed the channel");
  edge_->Fail(is_sender_ ? here : there, is_receiver_ ? here : there);
}

absl::StatusOr<Transfer*> InProcessChannel::Send(TransferTag tag, std::span<const std::byte> buffer,
                                                 const EventRef& ready) {
  if (!is_sender_) return absl::InternalError(absl::StrCat("the sender of ", TagText(tag), " is not here"));
  // The edge reads a sender's buffer only.
  return edge_->Post(EdgeEnd::kSender, {tag, const_cast<std::byte*>(buffer.data()), buffer.size(), ready});
}

absl::StatusOr<Transfer*> InProcessChannel::Recv(TransferTag tag, std::span<std::byte> buffer, const EventRef& ready) {
  if (!is_receiver_) return absl::InternalError(absl::StrCat("the receiver of ", TagText(tag), " is not here"));
  return edge_->Post(EdgeEnd::kReceiver, {tag, buffer.data(), buffer.size(), ready});
}

std::string InProcessChannel::route() const { return "memcpy"; }

}  // namespace stagecoach
