#ifndef STAGECOACH_COMMON_LOG_H_
#define STAGECOACH_COMMON_LOG_H_

#include "spdlog/spdlog.h"

namespace stagecoach {

// Sends the process's log to standard error, which is where everything goes that is not data. `component` names the
// process or role ("worker", "coordinator"). The level comes from STAGECOACH_LOG (trace, debug, info, warn, error;
// default warn). Log with spdlog::info(...) and its siblings, once, at the place that recognises an error.
void StartLog(const char* component);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LOG_H_
