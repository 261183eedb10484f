#include "worker/agent/lease.h"

#include <algorithm>

namespace stagecoach {
namespace {

constexpr int kMarginPart = 10;
// A dozen heartbeats fit into a lease. Older ones would not prolong it.
constexpr size_t kMaxUnanswered = 256;

}  // namespace

void Lease::Grant(absl::Duration length, absl::Duration hello_sent) {
  unanswered_.clear();
  length_ = length > absl::ZeroDuration() ? length - length / kMarginPart : absl::InfiniteDuration();
  end_ = hello_sent + length_;
}

void Lease::OnHeartbeatSent(uint64_t sequence, absl::Duration now) {
  if (unanswered_.size() == kMaxUnanswered) unanswered_.pop_front();
  unanswered_.emplace_back(sequence, now);
}

void Lease::OnHeartbeatReply(uint64_t sequence) {
  const auto answered = std::find_if(unanswered_.begin(), unanswered_.end(),
                                     [&](const auto& heartbeat) { return heartbeat.first == sequence; });
  if (answered == unanswered_.end()) return;
  end_ = std::max(end_, answered->second + length_);
  unanswered_.erase(unanswered_.begin(), answered + 1);
}

}  // namespace stagecoach
