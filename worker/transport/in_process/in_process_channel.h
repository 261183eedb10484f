#ifndef STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_CHANNEL_H_
#define STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_CHANNEL_H_

#include <memory>
#include <span>
#include <string>

#include "worker/transport/in_process/in_process_edge.h"
#include "worker/transport/transport.h"

namespace stagecoach {

// The channel of one or both ends of an edge within a process. Other transports use it when both ends are one worker's.
class InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<InProcessEdge> edge, bool is_sender, bool is_receiver);
  ~InProcessChannel() override;

  absl::StatusOr<Transfer*> Send(TransferTag tag, std::span<const std::byte> buffer, const EventRef& ready) override;
  absl::StatusOr<Transfer*> Recv(TransferTag tag, std::span<std::byte> buffer, const EventRef& ready) override;
  std::string route() const override;

 private:
  const std::shared_ptr<InProcessEdge> edge_;
  const bool is_sender_;
  const bool is_receiver_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_IN_PROCESS_IN_PROCESS_CHANNEL_H_
