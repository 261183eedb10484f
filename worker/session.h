#ifndef STAGECOACH_WORKER_SESSION_H_
#define STAGECOACH_WORKER_SESSION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// The worker's end of its stream to the coordinator. In process for now; over gRPC later. Send never blocks (bounded
// queue: RESOURCE_EXHAUSTED); Receive waits (DEADLINE_EXCEEDED), and returns once Close was called. UNAVAILABLE: the
// stream broke or was closed. Thread-safe.
class Session {
 public:
  virtual ~Session();
  virtual absl::Status Send(v1::WorkerMessage message) = 0;
  virtual absl::StatusOr<v1::CoordinatorMessage> Receive(absl::Duration timeout) = 0;
  virtual void Close() = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SESSION_H_
