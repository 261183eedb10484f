#ifndef STAGECOACH_COMMON_LOG_H_
#define STAGECOACH_COMMON_LOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace stagecoach {

struct LogOptions {
  std::string level = "info";   // one of kLogLevels
  std::string format = "text";  // one of kLogFormats
};
inline const std::vector<std::string> kLogLevels = {"trace", "debug", "info", "warn", "error"};
// json: one object a line, {"time": RFC 3339 in UTC, "level", "component", "message"}.
inline const std::vector<std::string> kLogFormats = {"text", "json"};

// Sends the process's log to standard error, which is where everything goes that is not data. `component` names the
// process or role ("worker", "coordinator"). Log with spdlog::info(...) and its siblings, once, at the place that
// recognises an error. INVALID_ARGUMENT: no such level or format.
absl::Status StartLog(const char* component, const LogOptions& options);
// For programs without options of their own: the level comes from STAGECOACH_LOG; default warn.
void StartLog(const char* component);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LOG_H_
