#ifndef STAGECOACH_COMMON_MESSAGE_QUEUE_H_
#define STAGECOACH_COMMON_MESSAGE_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace stagecoach {

// Bounded, first in first out. Push never blocks. Thread-safe; any number of producers and consumers. Allocates only
// when it holds more than it ever did.
template <typename T>
class MessageQueue {
 public:
  explicit MessageQueue(size_t capacity) : capacity_(capacity) {}

  // RESOURCE_EXHAUSTED: full. UNAVAILABLE: closed. After an error `message` is as it was.
  absl::Status Push(T&& message) {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the message queue is closed");
    if (size_ >= capacity_) return absl::ResourceExhaustedError("the message queue is full");
    if (size_ == places_.size()) Grow();
    places_[(first_ + size_) % places_.size()] = std::move(message);
    ++size_;
    not_empty_.NotifyOne();
    return absl::OkStatus();
  }
  absl::Status Push(const T& message) { return Push(T(message)); }

  // What was pushed before Close is still delivered. DEADLINE_EXCEEDED. UNAVAILABLE: closed and empty.
  absl::StatusOr<T> Pop(absl::Duration timeout) {
    const auto deadline = DeadlineIn(timeout);
    MutexLock lock(mutex_);
    while (size_ == 0) {
      if (closed_) return absl::UnavailableError("the message queue is closed");
      if (!not_empty_.WaitUntil(mutex_, deadline) && size_ == 0 && !closed_) {
        return absl::DeadlineExceededError("no message arrived");
      }
    }
    T message = *std::move(places_[first_]);
    places_[first_].reset();
    first_ = (first_ + 1) % places_.size();
    --size_;
    return message;
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
  }

 private:
  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::optional<T>> larger(std::min(capacity_, std::max<size_t>(8, 2 * size_)));
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move(places_[(first_ + i) % places_.size()]);
    places_ = std::move(larger);
    first_ = 0;
  }

  const size_t capacity_;
  Mutex mutex_;
  CondVar not_empty_;
  std::vector<std::optional<T>> places_ ABSL_GUARDED_BY(mutex_);  // a ring
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_MESSAGE_QUEUE_H_
