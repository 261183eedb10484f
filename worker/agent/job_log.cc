#include "worker/agent/job_log.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/valid_utf8.h"

namespace stagecoach {
namespace {

v1::LogSeverity SeverityOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return v1::LOG_SEVERITY_DEBUG;
    case spdlog::level::info:
      return v1::LOG_SEVERITY_INFO;
    case spdlog::level::warn:
      return v1::LOG_SEVERITY_WARNING;
    default:
      return v1::LOG_SEVERITY_ERROR;
  }
}

v1::LogLine LineOf(spdlog::level::level_enum level, std::chrono::system_clock::time_point time, std::string text) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  v1::LogLine line;
  line.mutable_time()->set_seconds(nanoseconds / 1'000'000'000);
  line.mutable_time()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  line.set_severity(SeverityOf(level));
  line.set_text(std::move(text));
  return line;
}

}  // namespace

void JobLog::SetJob(bool holds_job) {
  MutexLock lock(mutex_);
  holds_job_ = holds_job;
  if (holds_job) return;
  lines_.clear();
  num_dropped_ = 0;
}

v1::LogLines JobLog::Take(size_t max_lines) {
  v1::LogLines taken;
  MutexLock lock(mutex_);
  for (size_t i = 0; i < max_lines && !lines_.empty(); ++i) {
    *taken.add_lines() = std::move(lines_.front());
    lines_.pop_front();
  }
  if (lines_.empty() && num_dropped_ > 0) {
    *taken.add_lines() = LineOf(spdlog::level::warn, std::chrono::system_clock::now(),
                                absl::StrCat(num_dropped_, " lines were dropped here"));
    num_dropped_ = 0;
  }
  return taken;
}

void JobLog::log(const spdlog::details::log_msg& message) {
  std::string text = ValidUtf8({message.payload.data(), message.payload.size()}, kMaxTextBytes);
  MutexLock lock(mutex_);
  if (!holds_job_) return;
  if (lines_.size() == kMaxLines) {
    ++num_dropped_;
    return;
  }
  lines_.push_back(LineOf(message.level, message.time, std::move(text)));
}

}  // namespace stagecoach
