#include "coordinator/service/grpc_log.h"

#include <grpc/support/log.h>

#include "absl/strings/match.h"
#include "common/log.h"

namespace stagecoach {
namespace {

void Log(gpr_log_func_args* line) {
  // The last words before gRPC ends the process.
  const bool fatal = line->severity == GPR_LOG_SEVERITY_ERROR && absl::StrContains(line->message, "assertion failed");
  spdlog::log(fatal ? spdlog::level::err : spdlog::level::debug, "grpc: {}", line->message);
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(Log); }

}  // namespace stagecoach
