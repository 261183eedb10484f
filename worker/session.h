#ifndef STAGECOACH_WORKER_SESSION_H_
#define STAGECOACH_WORKER_SESSION_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The worker's end of one stream to the coordinator (worker.proto, Session). Destruction closes it. Thread-safe.
class Session {
 public:
  virtual ~Session();

  // In order, and never waits. RESOURCE_EXHAUSTED: the other end does not keep up. UNAVAILABLE: the session has ended.
  virtual absl::Status Send(v1::WorkerMessage message) = 0;
  // DEADLINE_EXCEEDED: nothing came in time. After the last message, why the session has ended:
  //   ABORTED, FAILED_PRECONDITION, INVALID_ARGUMENT  as worker.proto says
  //   UNAVAILABLE                                     for any other reason: dial again
  virtual absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) = 0;
  // Ends the session, and every Receive, at once. Idempotent.
  virtual void Close() = 0;
};

// Begins a session, without waiting for the other end: that nobody is there is what Receive will say.
using SessionDialer = std::function<std::unique_ptr<Session>()>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SESSION_H_
