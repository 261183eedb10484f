#ifndef STAGECOACH_COORDINATOR_TASK_THREAD_H_
#define STAGECOACH_COORDINATOR_TASK_THREAD_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/message_queue.h"
#include "common/named_thread.h"

namespace stagecoach {

// A thread that runs one task after another: for what takes too long for the coordinator's own. Thread-safe.
class TaskThread {
 public:
  explicit TaskThread(const std::string& name);
  ~TaskThread() { Stop(); }

  // RESOURCE_EXHAUSTED: too many wait. UNAVAILABLE: stopped.
  absl::Status Run(std::function<void()> task) { return tasks_.Push(std::move(task)); }
  // Waits for the task under way; tasks that wait are dropped. By one thread, which is not this one.
  void Stop();

 private:
  void Loop();

  std::atomic<bool> stopped_ = false;
  MessageQueue<std::function<void()>> tasks_;
  NamedThread thread_;  // last: uses the members above
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_TASK_THREAD_H_
