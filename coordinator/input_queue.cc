#include "coordinator/input_queue.h"

#include <utility>

namespace stagecoach {

absl::Status InputQueue::Push(std::function<void()> run, size_t capacity) {
  const absl::Duration now = clock_.Now();
  MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the coordinator has stopped");
  if (items_.size() >= capacity) return absl::ResourceExhaustedError("the coordinator's queue is full");
  items_.push_back({now, std::move(run)});
  not_empty_.NotifyOne();
  return absl::OkStatus();
}

absl::StatusOr<InputQueue::Item> InputQueue::Pop(absl::Duration timeout) {
  const auto deadline = DeadlineIn(timeout);
  MutexLock lock(mutex_);
  while (items_.empty()) {
    if (closed_) return absl::UnavailableError("the coordinator has stopped");
    if (!not_empty_.WaitUntil(mutex_, deadline) && items_.empty() && !closed_) {
      return absl::DeadlineExceededError("nothing has arrived");
    }
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

void InputQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  not_empty_.NotifyAll();
}

}  // namespace stagecoach
