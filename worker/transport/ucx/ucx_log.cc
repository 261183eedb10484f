#include "worker/transport/ucx/ucx_log.h"

#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace stagecoach {
namespace {

constexpr size_t kLongestMessage = 512;

// The last message of level warning or worse on this thread.
thread_local std::string last_message;

bool UserWantsUcxLog() { return std::getenv("UCX_LOG_LEVEL") != nullptr; }

ucs_log_func_rc_t Log(const char* file, unsigned line, const char* /*function*/, ucs_log_level_t level,
                      const ucs_log_component_config_t* /*component*/, const char* format, va_list arguments) {
  // UCX's own handler aborts at fatal messages.
  if (level > UCS_LOG_LEVEL_FATAL && UserWantsUcxLog()) return UCS_LOG_FUNC_RC_CONTINUE;
  char text[kLongestMessage];
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text, sizeof(text), format, copy);
  va_end(copy);
  if (level <= UCS_LOG_LEVEL_WARN) last_message = text;
  spdlog::debug("ucx: {} ({}:{})", text, file, line);
  return UCS_LOG_FUNC_RC_STOP;
}

absl::StatusCode CodeOf(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_CANCELED:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_REJECTED:
    case UCS_ERR_SHMEM_SEGMENT:
      return absl::StatusCode::kUnavailable;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_NO_DEVICE:
      return absl::StatusCode::kInvalidArgument;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

void TakeOverUcxLog() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(Log); });
}

absl::Status UcxError(ucs_status_t status, absl::string_view what) {
  const std::string detail = std::exchange(last_message, "");
  return absl::Status(CodeOf(status), absl::StrCat(what, ": ", ucs_status_string(status), detail.empty() ? "" : " (",
                                                   detail, detail.empty() ? "" : ")"));
}

}  // namespace stagecoach
