#ifndef STAGECOACH_WORKER_AGENT_LEASE_H_
#define STAGECOACH_WORKER_AGENT_LEASE_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/time/time.h"

namespace stagecoach {

// A worker's right to act, by its own clock. It runs from the *sending* of the newest heartbeat, or Hello, that was
// answered, less a margin of a tenth: so it is over here before it can be over at the coordinator, however long the
// messages took. It survives the session that it was granted in. Pure; not thread-safe.
class Lease {
 public:
  // Welcome to a Hello sent at `hello_sent`. A length that is not positive never ends. Heartbeats of the session before
  // are not answered any more.
  void Grant(absl::Duration length, absl::Duration hello_sent);
  void OnHeartbeatSent(uint64_t sequence, absl::Duration now);
  void OnHeartbeatReply(uint64_t sequence);  // one that was not sent, or whose turn has passed, changes nothing

  // The first moment without it; infinite: it does not end, or none was ever granted.
  absl::Duration end() const { return end_; }

 private:
  absl::Duration length_ = absl::InfiniteDuration();  // less the margin
  absl::Duration end_ = absl::InfiniteDuration();
  std::deque<std::pair<uint64_t, absl::Duration>> unanswered_;  // sequence, when it was sent
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_LEASE_H_
