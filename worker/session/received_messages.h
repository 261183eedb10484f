#ifndef STAGECOACH_WORKER_SESSION_RECEIVED_MESSAGES_H_
#define STAGECOACH_WORKER_SESSION_RECEIVED_MESSAGES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/message_queue.h"
#include "common/mutex.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// What has come in a session and has not been taken yet, and in the end why nothing more comes. Bounded, first in first
// out. Thread-safe.
class ReceivedMessages {
 public:
  explicit ReceivedMessages(size_t capacity) : messages_(capacity) {}

  // RESOURCE_EXHAUSTED: the worker does not keep up. UNAVAILABLE: the session has ended.
  absl::Status Push(v1::CoordinatorMessage message) { return messages_.Push(std::move(message)); }
  // What was pushed before is still delivered. Only the first reason counts; it becomes one that Session::Receive has.
  void End(const absl::Status& why);
  // As Session::Receive.
  absl::StatusOr<v1::CoordinatorMessage> Pop(absl::Duration timeout);
  bool has_ended() const;

 private:
  MessageQueue<v1::CoordinatorMessage> messages_;
  mutable Mutex mutex_;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // OK: not yet
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_SESSION_RECEIVED_MESSAGES_H_
