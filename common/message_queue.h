#ifndef STAGECOACH_COMMON_MESSAGE_QUEUE_H_
#define STAGECOACH_COMMON_MESSAGE_QUEUE_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace stagecoach {

// Bounded, first in first out. Push never blocks. Thread-safe; any number of producers and consumers.
template <typename T>
class MessageQueue {
 public:
  explicit MessageQueue(size_t capacity) : capacity_(capacity) {}

  // RESOURCE_EXHAUSTED: full. UNAVAILABLE: closed.
  absl::Status Push(T message) {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the message queue is closed");
    if (messages_.size() >= capacity_) return absl::ResourceExhaustedError("the message queue is full");
    messages_.push_back(std::move(message));
    not_empty_.NotifyOne();
    return absl::OkStatus();
  }

  // What was pushed before Close is still delivered. DEADLINE_EXCEEDED. UNAVAILABLE: closed and empty.
  absl::StatusOr<T> Pop(absl::Duration timeout) {
    const auto deadline = DeadlineIn(timeout);
    MutexLock lock(mutex_);
    while (messages_.empty()) {
      if (closed_) return absl::UnavailableError("the message queue is closed");
      if (!not_empty_.WaitUntil(mutex_, deadline) && messages_.empty() && !closed_) {
        return absl::DeadlineExceededError("no message arrived");
      }
    }
    T message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  CondVar not_empty_;
  std::deque<T> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_MESSAGE_QUEUE_H_
