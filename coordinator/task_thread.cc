#include "coordinator/task_thread.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxWaitingTasks = 1024;

}  // namespace

TaskThread::TaskThread(const std::string& name) : tasks_(kMaxWaitingTasks), thread_(name, [this] { Loop(); }) {}

void TaskThread::Stop() {
  stopped_ = true;
  tasks_.Close();
  thread_.Join();
}

void TaskThread::Loop() {
  while (true) {
    const absl::StatusOr<std::function<void()>> task = tasks_.Pop(absl::InfiniteDuration());
    if (absl::IsDeadlineExceeded(task.status())) continue;  // infinity has an end
    if (!task.ok() || stopped_) return;
    (*task)();
  }
}

}  // namespace stagecoach
