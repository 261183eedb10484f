#ifndef STAGECOACH_WORKER_AGENT_JOB_LOG_H_
#define STAGECOACH_WORKER_AGENT_JOB_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/mutex.h"
#include "spdlog/sinks/sink.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

// A sink for the process's log that keeps lines until the agent sends them to the coordinator. Bounded and never waits:
// a line that finds it full is counted and dropped. Keeps nothing while the worker holds no job. Thread-safe.
class JobLog final : public spdlog::sinks::sink {
 public:
  static constexpr size_t kMaxLines = 1024;
  static constexpr size_t kMaxTextBytes = 4096;

  // Lines are about a job from now on, or, false, about none.
  void SetJob(bool holds_job);
  // At most `max_lines` of those that wait, and then, in a line of its own, how many were dropped.
  v1::LogLines Take(size_t max_lines);

  void log(const spdlog::details::log_msg& message) override;
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}  // lines are sent as they are
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

 private:
  Mutex mutex_;
  bool holds_job_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::LogLine> lines_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_AGENT_JOB_LOG_H_
