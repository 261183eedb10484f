#ifndef STAGECOACH_WORKER_AGENT_SESSION_KEEPER_H_
#define STAGECOACH_WORKER_AGENT_SESSION_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/named_thread.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/clock_offset.h"
#include "worker/agent/inbox.h"
#include "worker/agent/session_rules.h"
#include "worker/session.h"

namespace stagecoach {

// Keeps a worker in session with its coordinator, by SessionRules: dials, says Hello, sends heartbeats, hangs up, dials
// again. A thread reads each session into the inbox; all else is the agent's thread, which hands on what it finds there
// of the current session, and does itself what is due and has to do with a job.
class SessionKeeper {
 public:
  struct Says {
    std::function<v1::WorkerMessage()> hello;
    std::function<v1::WorkerMessage()> heartbeat;  // but for its sequence
  };
  SessionKeeper(const AgentOptions& options, SessionDialer dialer, Says says, Inbox& inbox);
  ~SessionKeeper() { HangUp(); }

  // Does what is due, up to the first deed that is the agent's: kQuiesce, kDropState, kAbandon, kGiveUp. None: nothing
  // is due any more.
  std::optional<SessionRules::Deed> DoDue();
  absl::Duration UntilDue() const;

  bool IsCurrent(uint64_t session) const { return open_ != nullptr && open_->number == session; }
  void OnWelcome(const v1::Welcome& welcome);
  void OnHeartbeatReply(const v1::HeartbeatReply& reply);
  void OnEnded(const absl::Status& why);  // the current one
  void Stop();                            // ends the session; not to be used any more
  void OnLeaving() { rules_.OnLeaving(options_.leave_timeout, options_.clock.Now()); }

  // Dropped without a session that was welcomed: what a broken stream has lost is not sent again (worker.proto). The
  // next Hello says how far the worker is.
  void Send(v1::WorkerMessage message);

  bool is_up() const { return rules_.is_up(); }
  bool is_quiet() const { return rules_.is_quiet(); }
  absl::Duration lease_end() const { return rules_.lease_end(); }
  // Of the coordinator of the session; nullopt: it has not said what time it is.
  std::optional<ClockOffsetEstimator::Estimate> clock_offset() const { return clock_offset_.At(options_.clock.Now()); }
  // Why there is no session; for the end of a worker that has given up.
  const absl::Status& last_end() const { return last_end_; }

 private:
  struct OpenSession {
    uint64_t number = 0;
    std::unique_ptr<Session> session;
    std::atomic<bool> hung_up{false};
    NamedThread reader;  // last: it uses all of the above
  };

  void Dial();
  void Read(OpenSession& open);
  void HangUp();
  void SendHeartbeat();
  void SendNow(v1::WorkerMessage message);
  void LogNoSession();
  void NoteCoordinatorsClock(uint64_t sequence, int64_t nanoseconds);

  const AgentOptions& options_;
  const SessionDialer dialer_;
  const Says says_;
  Inbox& inbox_;
  SessionRules rules_;
  ClockOffsetEstimator clock_offset_;
  uint64_t num_sessions_ = 0;
  absl::Status last_end_;
  absl::Duration log_at_;
  std::unique_ptr<OpenSession> open_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_SESSION_KEEPER_H_
