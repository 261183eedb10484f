#include "worker/transport/in_process/in_process_edge.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/transport/transport_errors.h"

namespace stagecoach {
namespace {

// A copy looks between pieces whether it was aborted: a piece takes tens of microseconds.
constexpr size_t kPieceBytes = size_t{256} << 10;
// Between two questions to an event, which offers nothing to sleep on.
constexpr std::chrono::microseconds kEventPollInterval(20);

}  // namespace

absl::Status InProcessTransfer::Wait(absl::Duration timeout) { return edge_.Wait(*this, timeout); }

bool InProcessTransfer::complete() const { return edge_.IsComplete(*this); }

absl::Duration InProcessTransfer::completed_at() const { return edge_.CompletedAt(*this); }

absl::Status InProcessEdge::Open(EdgeEnd end, uint32_t num_slots) {
  if (num_slots == 0) return absl::InvalidArgumentError(absl::StrCat(name_, ": num_slots is 0"));
  MutexLock lock(mutex_);
  Side& opened = side(end);
  if (!opened.ring.empty()) return absl::AlreadyExistsError(absl::StrCat(name_, ": this end is open already"));
  opened.ring.reserve(num_slots);
  for (uint32_t i = 0; i < num_slots; ++i) opened.ring.emplace_back(*this, end);
  return absl::OkStatus();
}

absl::StatusOr<Transfer*> InProcessEdge::Post(EdgeEnd end, EdgePost post) {
  MutexLock lock(mutex_);
  Side& poster = side(end);
  if (!poster.failure.ok()) return poster.failure;
  InProcessTransfer& transfer = poster.ring[poster.num_posted % poster.ring.size()];
  if (transfer.state_ == InProcessTransfer::State::kPosted || transfer.state_ == InProcessTransfer::State::kCopying) {
    return TooManyPostsError(name_, post.tag, poster.ring.size());
  }
  transfer.post_ = std::move(post);
  transfer.state_ = InProcessTransfer::State::kPosted;
  ++poster.num_posted;
  Match();
  return &transfer;
}

void InProcessEdge::Fail(const absl::Status& sender, const absl::Status& receiver) {
  MutexLock lock(mutex_);
  if (side(EdgeEnd::kSender).failure.ok()) side(EdgeEnd::kSender).failure = sender;
  if (side(EdgeEnd::kReceiver).failure.ok()) side(EdgeEnd::kReceiver).failure = receiver;
  failed_.store(true, std::memory_order_relaxed);
  changed_.NotifyAll();
  while (copying_) changed_.Wait(mutex_);
}

absl::Status InProcessEdge::Wait(InProcessTransfer& transfer, absl::Duration timeout) {
  using State = InProcessTransfer::State;
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  while (transfer.state_ != State::kComplete) {
    // While the buffer is being copied its owner may not have it back, not even with an error.
    if (transfer.state_ == State::kCopying) {
      changed_.Wait(mutex_);
      continue;
    }
    if (const absl::Status& failure = side(transfer.end_).failure; !failure.ok()) return failure;
    if (!changed_.WaitUntil(mutex_, deadline) && transfer.state_ == State::kPosted &&
        side(transfer.end_).failure.ok()) {
      return NotPostedError(name_, transfer.post_.tag, timeout);
    }
  }
  return absl::OkStatus();
}

bool InProcessEdge::IsComplete(const InProcessTransfer& transfer) {
  MutexLock lock(mutex_);
  return transfer.state_ == InProcessTransfer::State::kComplete;
}

absl::Duration InProcessEdge::CompletedAt(const InProcessTransfer& transfer) {
  MutexLock lock(mutex_);
  return transfer.completed_at_;
}

bool InProcessEdge::HasFailed() {
  return !side(EdgeEnd::kSender).failure.ok() || !side(EdgeEnd::kReceiver).failure.ok();
}

void InProcessEdge::Match() {
  using State = InProcessTransfer::State;
  Side& sender = side(EdgeEnd::kSender);
  Side& receiver = side(EdgeEnd::kReceiver);
  while (!copying_ && !HasFailed() && std::min(sender.num_posted, receiver.num_posted) > num_matched_) {
    InProcessTransfer& sent = sender.ring[num_matched_ % sender.ring.size()];
    InProcessTransfer& received = receiver.ring[num_matched_ % receiver.ring.size()];
    sent.state_ = received.state_ = State::kCopying;
    copying_ = true;
    const EdgePost from = std::move(sent.post_);
    const EdgePost to = std::move(received.post_);
    mutex_.Unlock();
    absl::Status copied = CheckPair(from, to);
    if (copied.ok()) copied = Copy(from, to);
    mutex_.Lock();
    copying_ = false;
    if (copied.ok()) {
      ++num_matched_;
      sent.state_ = received.state_ = State::kComplete;
      sent.completed_at_ = received.completed_at_ = clock_.Now();
    } else {
      sent.state_ = received.state_ = State::kPosted;
      if (sender.failure.ok()) sender.failure = copied;
      if (receiver.failure.ok()) receiver.failure = copied;
    }
    changed_.NotifyAll();
  }
}

absl::Status InProcessEdge::CheckPair(const EdgePost& sent, const EdgePost& received) const {
  const PostedTransfer at_sender{sent.tag, sent.bytes};
  const PostedTransfer at_receiver{received.tag, received.bytes};
  return at_sender == at_receiver ? absl::OkStatus() : MismatchError(name_, at_sender, at_receiver);
}

absl::Status InProcessEdge::Copy(const EdgePost& sent, const EdgePost& received) const {
  STAGECOACH_RETURN_IF_ERROR(WaitReady(sent));
  STAGECOACH_RETURN_IF_ERROR(WaitReady(received));
  for (size_t offset = 0; offset < sent.bytes; offset += kPieceBytes) {
    if (failed_.load(std::memory_order_relaxed)) return absl::AbortedError(absl::StrCat(name_, ": aborted"));
    std::memcpy(received.buffer + offset, sent.buffer + offset, std::min(kPieceBytes, sent.bytes - offset));
  }
  return absl::OkStatus();
}

absl::Status InProcessEdge::WaitReady(const EdgePost& post) const {
  if (post.ready == nullptr) return absl::OkStatus();
  while (true) {
    STAGECOACH_ASSIGN_OR_RETURN(const bool complete, post.ready->IsComplete());
    if (complete) return absl::OkStatus();
    if (failed_.load(std::memory_order_relaxed)) return absl::AbortedError(absl::StrCat(name_, ": aborted"));
    std::this_thread::sleep_for(kEventPollInterval);
  }
}

}  // namespace stagecoach
