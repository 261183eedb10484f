#include "worker/executor/transfer_slots.h"

#include <utility>

#include "common/status_macros.h"

namespace stagecoach {

TransferSlots::TransferSlots(const v1::ChannelSpec& spec, uint32_t index, Channel* channel, std::vector<Slot> slots,
                             const Trace& trace)
    : spec_(spec),
      index_(index),
      channel_(channel),
      trace_(trace),
      slots_(std::move(slots)),
      recorded_(trace.ring == nullptr ? 0 : slots_.size()) {}

size_t TransferSlots::TransferBytes(int64_t samples) const {
  return spec_.kind() == v1::CHANNEL_KIND_TIE ? spec_.bytes() : spec_.bytes_per_sample() * static_cast<size_t>(samples);
}

absl::Status TransferSlots::PostSend(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes,
                                     const EventRef& ready) {
  NoteCompleted();
  const absl::Duration now = trace_.ring == nullptr ? absl::ZeroDuration() : trace_.clock.Now();
  const Slot& slot = slots_[index];
  STAGECOACH_ASSIGN_OR_RETURN(Transfer * transfer,
                              channel_->Send(Tag(micro_batch, step), slot.buffer.first(bytes), ready));
  SetPending({.slot = index, .micro_batch = micro_batch, .bytes = bytes, .sends = true}, transfer, now);
  return absl::OkStatus();
}

absl::Status TransferSlots::PostRecv(size_t index, MicroBatchIndex micro_batch, Step step, size_t bytes,
                                     const EventRef& ready) {
  NoteCompleted();
  const absl::Duration now = trace_.ring == nullptr ? absl::ZeroDuration() : trace_.clock.Now();
  const Slot& slot = slots_[index];
  STAGECOACH_ASSIGN_OR_RETURN(Transfer * transfer,
                              channel_->Recv(Tag(micro_batch, step), slot.buffer.first(bytes), ready));
  SetPending({.slot = index, .micro_batch = micro_batch, .bytes = bytes, .sends = false}, transfer, now);
  return absl::OkStatus();
}

absl::Status TransferSlots::Wait(Slot& slot, absl::Duration timeout) {
  Transfer& transfer = *std::exchange(slot.pending, nullptr);
  STAGECOACH_RETURN_IF_ERROR(transfer.Wait(timeout));
  if (trace_.ring != nullptr) {
    trace_.ring->Complete(slot.record, absl::ToInt64Nanoseconds(transfer.completed_at()));
  }
  return absl::OkStatus();
}

TransferTag TransferSlots::Tag(MicroBatchIndex micro_batch, Step step) const {
  return TransferTag::Of(spec_.kind(), StageIndex(spec_.from_stage()), micro_batch, step);
}

void TransferSlots::NoteCompleted() {
  for (; num_recorded_ > 0; first_recorded_ = (first_recorded_ + 1) % recorded_.size(), --num_recorded_) {
    const RecordedPost& oldest = recorded_[first_recorded_];
    Slot& slot = slots_[oldest.slot];
    if (slot.pending == nullptr || slot.record != oldest.record) continue;  // it was waited for
    if (!slot.pending->complete()) return;
    trace_.ring->Complete(slot.record, absl::ToInt64Nanoseconds(slot.pending->completed_at()));
    slot.pending = nullptr;
  }
}

void TransferSlots::SetPending(const Post& post, Transfer* transfer, absl::Duration posted) {
  const int64_t post_nanoseconds = absl::ToInt64Nanoseconds(posted);
  // The channel uses a Transfer again once it is complete, which its slot may not have looked at yet.
  for (Slot& slot : slots_) {
    if (slot.pending != transfer) continue;
    slot.pending = nullptr;
    // It was not when NoteCompleted looked, a moment ago.
    if (trace_.ring != nullptr) trace_.ring->Complete(slot.record, post_nanoseconds);
  }
  slots_[post.slot].pending = transfer;
  bytes_ += post.bytes;
  if (trace_.ring == nullptr) return;
  const uint64_t record = trace_.ring->Add({.post = post_nanoseconds,
                                            .completed = 0,
                                            .bytes = post.bytes,
                                            .from_stage = spec_.from_stage(),
                                            .to_stage = spec_.to_stage(),
                                            .micro_batch = post.micro_batch.value(),
                                            .kind = static_cast<uint8_t>(spec_.kind()),
                                            .sent = post.sends});
  slots_[post.slot].record = record;
  if (num_recorded_ == recorded_.size()) return;
  recorded_[(first_recorded_ + num_recorded_++) % recorded_.size()] = {.slot = post.slot, .record = record};
}

}  // namespace stagecoach
