#include "coordinator/service/library_log.h"

#include <grpc/support/log.h>

#include <string>

#include "absl/strings/match.h"
#include "common/log.h"
#include "google/protobuf/stubs/logging.h"

namespace stagecoach {
namespace {

void LogOfGrpc(gpr_log_func_args* line) {
  // The last words before gRPC ends the process.
  const bool fatal = line->severity == GPR_LOG_SEVERITY_ERROR && absl::StrContains(line->message, "assertion failed");
  spdlog::log(fatal ? spdlog::level::err : spdlog::level::debug, "grpc: {}", line->message);
}

void LogOfProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  const bool fatal = level == google::protobuf::LOGLEVEL_FATAL;
  spdlog::log(fatal ? spdlog::level::err : spdlog::level::debug, "protobuf: {}", message);
}

}  // namespace

void RouteLibraryLogs() {
  gpr_set_log_function(LogOfGrpc);
  google::protobuf::SetLogHandler(LogOfProtobuf);
}

}  // namespace stagecoach
