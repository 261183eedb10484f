#include "worker/agent/session_rules.h"

#include <algorithm>
#include <utility>

namespace stagecoach {
namespace {

constexpr absl::Duration kDefaultOrphanTimeout = absl::Minutes(10);  // until a Welcome says how long

absl::Duration ToDuration(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

}  // namespace

SessionRules::SessionRules(const Options& options, uint64_t seed, absl::Duration now)
    : options_(options),
      redial_(options.redial, seed),
      dial_at_(now),
      down_since_(now),
      orphan_timeout_(options.orphan_timeout.value_or(kDefaultOrphanTimeout)) {}

// The session can be of no more use: nobody welcomed the worker, or a lease cannot be had by it.
absl::Duration SessionRules::HangUpAt() const {
  switch (phase_) {
    case Phase::kDown:
      return absl::InfiniteDuration();
    case Phase::kDialled:
      return dialled_at_ + options_.welcome_timeout;
    case Phase::kUp:
      return lease_.end();
  }
  return absl::InfiniteDuration();
}

std::optional<SessionRules::Deed> SessionRules::TakeDue(absl::Duration now) {
  if (!quiet_ && now >= lease_.end()) {
    quiet_ = true;
    return Deed::kQuiesce;
  }
  if (now >= HangUpAt()) {
    OnSessionEnded(now);
    return Deed::kHangUp;
  }
  if (now >= abandon_at_) {
    abandon_at_ = absl::InfiniteDuration();
    return Deed::kAbandon;
  }
  if (phase_ == Phase::kUp) {
    if (now < heartbeat_at_) return std::nullopt;
    // Not one for each interval that the process stood still.
    heartbeat_at_ = now + heartbeat_interval_;
    lease_.OnHeartbeatSent(++heartbeat_sequence_, now);
    return Deed::kHeartbeat;
  }
  if (!state_dropped_ && now >= down_since_ + orphan_timeout_) {
    state_dropped_ = true;
    return Deed::kDropState;
  }
  if (!gave_up_ && now >= down_since_ + options_.dial_timeout) {
    gave_up_ = true;
    return Deed::kGiveUp;
  }
  if (phase_ == Phase::kDown && now >= dial_at_) {
    phase_ = Phase::kDialled;
    dialled_at_ = now;
    return Deed::kDial;
  }
  return std::nullopt;
}

absl::Duration SessionRules::NextDue() const {
  absl::Duration next = std::min(HangUpAt(), abandon_at_);
  if (!quiet_) next = std::min(next, lease_.end());
  if (phase_ == Phase::kUp) return std::min(next, heartbeat_at_);
  if (!state_dropped_) next = std::min(next, down_since_ + orphan_timeout_);
  if (!gave_up_) next = std::min(next, down_since_ + options_.dial_timeout);
  return phase_ == Phase::kDown ? std::min(next, dial_at_) : next;
}

void SessionRules::OnWelcome(const v1::Welcome& welcome) {
  if (phase_ != Phase::kDialled) return;
  phase_ = Phase::kUp;
  lease_.Grant(ToDuration(welcome.lease()), dialled_at_);
  const absl::Duration interval = ToDuration(welcome.heartbeat_interval());
  heartbeat_interval_ = interval > absl::ZeroDuration() ? interval : absl::InfiniteDuration();
  // Hello was the first: after a Welcome that took long there may be less than an interval left of the lease.
  heartbeat_at_ = dialled_at_ + heartbeat_interval_;
  heartbeat_sequence_ = 0;
  if (heartbeat_interval_ == absl::InfiniteDuration()) redial_.Reset();
  const absl::Duration orphan_timeout = ToDuration(welcome.orphan_timeout());
  if (!options_.orphan_timeout && orphan_timeout > absl::ZeroDuration()) orphan_timeout_ = orphan_timeout;
  quiet_ = state_dropped_ = false;
}

// Only now has dialling worked: a coordinator that welcomes and hangs up is not dialled in a tight loop.
void SessionRules::OnHeartbeatReply(uint64_t sequence) {
  if (phase_ != Phase::kUp) return;
  lease_.OnHeartbeatReply(sequence);
  redial_.Reset();
}

void SessionRules::OnSessionEnded(absl::Duration now) {
  if (phase_ == Phase::kDown) return;
  if (phase_ == Phase::kUp) down_since_ = now;
  phase_ = Phase::kDown;
  dial_at_ = now + redial_.Next();
}

void SessionRules::OnLeaving(absl::Duration timeout, absl::Duration now) {
  abandon_at_ = std::min(abandon_at_, now + timeout);
}

}  // namespace stagecoach
