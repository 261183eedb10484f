#include "worker/transport/ucx/ucx_transfer.h"

#include <utility>

#include "worker/transport/ucx/ucx_driver.h"

namespace stagecoach {

absl::Status UcxTransfer::Wait(absl::Duration timeout) {
  const auto settled = [this] { return !is_posted(); };
  if (!settled()) end_.driver_.WaitUntil(settled, DeadlineIn(timeout));
  switch (state_.load(std::memory_order_acquire)) {
    case State::kComplete:
      return absl::OkStatus();
    case State::kFailed:
      return end_.failure();
    case State::kPosted:
      return NotPostedError(end_.place_.name, tag_, timeout);
    case State::kIdle:
      break;
  }
  return absl::InternalError("a transfer that was not posted");
}

UcxEnd::UcxEnd(Place place, uint32_t num_slots, UcxDriver& driver) : place_(std::move(place)), driver_(driver) {
  ring_.reserve(num_slots);
  for (uint32_t i = 0; i < num_slots; ++i) ring_.push_back(std::make_unique<UcxTransfer>(*this));
}

absl::Status UcxEnd::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

absl::StatusOr<Transfer*> UcxEnd::Post(PostedTransfer what, std::byte* buffer, const EventRef& ready) {
  if (has_failed()) return failure();
  UcxTransfer& transfer = at(num_posted_);
  if (transfer.is_posted()) return TooManyPostsError(place_.name, what.tag, ring_.size());
  transfer.tag_ = what.tag;
  transfer.buffer_ = buffer;
  transfer.bytes_ = what.bytes;
  transfer.ready_ = ready;
  transfer.sequence_ = num_posted_;
  transfer.moved_bytes_ = 0;
  transfer.source_ = 0;
  transfer.Settle(UcxTransfer::State::kPosted);
  ++num_posted_;
  if (!driver_.Post(transfer)) {
    transfer.Settle(UcxTransfer::State::kFailed);
    return failure();
  }
  return &transfer;
}

void UcxEnd::Fail(const absl::Status& status) {
  guard_.Clear();
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  failed_.store(true, std::memory_order_release);
  for (const auto& transfer : ring_) {
    if (transfer->is_posted()) transfer->Settle(UcxTransfer::State::kFailed);
  }
}

}  // namespace stagecoach
