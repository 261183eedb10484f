#ifndef STAGECOACH_COORDINATOR_INPUT_QUEUE_H_
#define STAGECOACH_COORDINATOR_INPUT_QUEUE_H_

#include <cstddef>
#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace stagecoach {

// What the coordinator's thread is to run, in the order of arrival. Bounded; Push never blocks. Thread-safe; one
// consumer.
class InputQueue {
 public:
  struct Item {
    absl::Duration arrived;
    std::function<void()> run;
  };
  // `reserve` places more are kept for PushReserved.
  InputQueue(const Clock& clock, size_t capacity, size_t reserve)
      : clock_(clock), capacity_(capacity), reserve_(reserve) {}

  // RESOURCE_EXHAUSTED: full. UNAVAILABLE: closed.
  absl::Status Push(std::function<void()> run) { return Push(std::move(run), capacity_); }
  // For what must not be lost because others send too much: the results of effects, the ends of sessions.
  absl::Status PushReserved(std::function<void()> run) { return Push(std::move(run), capacity_ + reserve_); }
  // What was pushed before Close is still delivered. DEADLINE_EXCEEDED. UNAVAILABLE: closed and empty.
  absl::StatusOr<Item> Pop(absl::Duration timeout);
  void Close();

 private:
  absl::Status Push(std::function<void()> run, size_t capacity);

  const Clock& clock_;
  const size_t capacity_;
  const size_t reserve_;
  Mutex mutex_;
  CondVar not_empty_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_INPUT_QUEUE_H_
