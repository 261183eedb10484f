#ifndef STAGECOACH_WORKER_AGENT_SESSION_RULES_H_
#define STAGECOACH_WORKER_AGENT_SESSION_RULES_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/backoff.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/lease.h"

namespace stagecoach {

// When a worker dials, beats, quiesces and gives up: what architecture.md, "The session", says, over time and over
// sessions. Says what is due and is told what has happened; does nothing itself. Time is an argument and never goes
// back. Pure; not thread-safe.
class SessionRules {
 public:
  struct Options {
    Backoff::Options redial;
    absl::Duration welcome_timeout = absl::Seconds(10);      // from Hello to Welcome
    absl::Duration dial_timeout = absl::InfiniteDuration();  // longest time without a session
    std::optional<absl::Duration> orphan_timeout;            // instead of what Welcome says
  };

  enum class Deed {
    kQuiesce,    // the lease is over: no sends to peers, no file writes; once until it is granted again
    kHangUp,     // close the session: it was not answered, or the lease is over; counts as its end
    kDropState,  // of the job: too long without a session; once until the next one
    kHeartbeat,  // send the one of heartbeat_sequence()
    kDial,       // begin a session with Hello; OnSessionEnded when that fails
    kAbandon,    // it has been leaving for long enough
    kGiveUp,     // too long without a session to go on dialling
  };

  SessionRules(const Options& options, uint64_t seed, absl::Duration now);

  // The most urgent deed that is due; from then on it counts as done. Until there is none.
  std::optional<Deed> TakeDue(absl::Duration now);
  // When the next one is due if nothing happens before.
  absl::Duration NextDue() const;

  // Of the session dialled last.
  void OnWelcome(const v1::Welcome& welcome);
  void OnHeartbeatReply(uint64_t sequence);
  void OnSessionEnded(absl::Duration now);

  // The worker leaves, and waits no longer than `timeout` to be dismissed.
  void OnLeaving(absl::Duration timeout, absl::Duration now);

  bool is_up() const { return phase_ == Phase::kUp; }  // welcomed
  bool has_session() const { return phase_ != Phase::kDown; }
  bool is_quiet() const { return quiet_; }  // since kQuiesce
  absl::Duration lease_end() const { return lease_.end(); }
  uint64_t heartbeat_sequence() const { return heartbeat_sequence_; }

 private:
  enum class Phase { kDown, kDialled, kUp };

  absl::Duration HangUpAt() const;

  const Options options_;
  Backoff redial_;
  Lease lease_;

  Phase phase_ = Phase::kDown;
  absl::Duration dial_at_;
  absl::Duration dialled_at_;
  absl::Duration heartbeat_interval_ = absl::InfiniteDuration();
  absl::Duration heartbeat_at_ = absl::InfiniteDuration();
  uint64_t heartbeat_sequence_ = 0;
  bool quiet_ = false;

  absl::Duration down_since_;  // when the last session that was welcomed ended, or the start
  absl::Duration orphan_timeout_;
  bool state_dropped_ = false;
  absl::Duration abandon_at_ = absl::InfiniteDuration();
  bool gave_up_ = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_SESSION_RULES_H_
