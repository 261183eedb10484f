#include "worker/executor/transfer_slots.h"

#include <utility>

#include "common/status_macros.h"

namespace stagecoach {

TransferSlots::TransferSlots(const v1::ChannelSpec& spec, uint32_t index, Channel& channel, std::vector<Slot> slots)
    : spec_(spec), index_(index), channel_(channel), slots_(std::move(slots)) {}

size_t TransferSlots::TransferBytes(int64_t samples) const {
  return spec_.kind() == v1::CHANNEL_KIND_TIE ? spec_.bytes() : spec_.bytes_per_sample() * static_cast<size_t>(samples);
}

absl::Status TransferSlots::PostSend(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes) {
  const Slot& slot = slots_[index];
  STAGECOACH_ASSIGN_OR_RETURN(Transfer * transfer,
                              channel_.Send(Tag(micro_batch, step), slot.buffer.first(bytes), slot.ready));
  SetPending(index, transfer);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status TransferSlots::PostRecv(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes) {
  const Slot& slot = slots_[index];
  STAGECOACH_ASSIGN_OR_RETURN(Transfer * transfer,
                              channel_.Recv(Tag(micro_batch, step), slot.buffer.first(bytes), slot.ready));
  SetPending(index, transfer);
  bytes_ += bytes;
  return absl::OkStatus();
}

TransferTag TransferSlots::Tag(MicroBatchIndex micro_batch, Step step) const {
  return TransferTag::Of(spec_.kind(), StageIndex(spec_.from_stage()), micro_batch, step);
}

void TransferSlots::SetPending(size_t index, Transfer* transfer) {
  // The channel uses a Transfer again once it is complete, which its slot may not have looked at yet.
  for (Slot& slot : slots_) {
    if (slot.pending == transfer) slot.pending = nullptr;
  }
  slots_[index].pending = transfer;
}

}  // namespace stagecoach
