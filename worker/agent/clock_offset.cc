#include "worker/agent/clock_offset.h"

#include <algorithm>

namespace stagecoach {

void ClockOffsetEstimator::Reset() {
  sent_.clear();
  is_known_ = false;
}

void ClockOffsetEstimator::OnSent(uint64_t sequence, absl::Duration at) {
  if (sent_.size() == kMostSent) sent_.pop_front();
  sent_.emplace_back(sequence, at);
}

void ClockOffsetEstimator::OnAnswer(uint64_t sequence, absl::Duration remote, absl::Duration at) {
  const auto sent = std::find_if(sent_.begin(), sent_.end(), [&](const auto& one) { return one.first == sequence; });
  if (sent == sent_.end()) return;
  const absl::Duration sent_at = sent->second;
  // Answers come in order: those before this one will not come.
  sent_.erase(sent_.begin(), sent + 1);
  const absl::Duration error = (at - sent_at) / 2;
  if (is_known_ && error > ErrorAt(at)) return;
  is_known_ = true;
  offset_ = remote - (sent_at + error);
  error_ = error;
  measured_at_ = at;
}

std::optional<ClockOffsetEstimator::Estimate> ClockOffsetEstimator::At(absl::Duration now) const {
  if (!is_known_) return std::nullopt;
  return Estimate{.offset = offset_, .error = ErrorAt(now)};
}

}  // namespace stagecoach
