#ifndef STAGECOACH_CLIENT_OUTPUT_ERROR_REPORT_H_
#define STAGECOACH_CLIENT_OUTPUT_ERROR_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/output/exit_codes.h"

namespace stagecoach {

// Why a verb did not do what it was asked.
struct Failure {
  ExitCode code = kExitError;
  absl::Status status;
  std::string field = {};  // of the specification: training.steps
  std::string hint = {};   // what to do
};
// With the exit code that the status has as a coordinator's answer.
Failure ServerFailure(absl::Status status);

// Tells people on standard error and, when the verb prints JSON, programs on standard output: {"error": {"code",
// "message", "field", "hint", "request_id"}}. Returns the exit code.
struct ErrorStyle {
  bool json = false;
  std::string request_id = {};  // that the coordinator was given; empty: it was not asked
};
int ReportFailure(const Failure& failure, const ErrorStyle& style);
std::string FailureJson(const Failure& failure, const ErrorStyle& style);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_OUTPUT_ERROR_REPORT_H_
