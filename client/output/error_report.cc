#include "client/output/error_report.h"

#include <iostream>
#include <utility>

#include "client/output/json.h"

namespace stagecoach {

Failure ServerFailure(absl::Status status) {
  const ExitCode code = ExitCodeOf(status);
  return {.code = code, .status = std::move(status)};
}

std::string FailureJson(const Failure& failure, const ErrorStyle& style) {
  const Json json = {{"error",
                      {{"code", absl::StatusCodeToString(failure.status.code())},
                       {"message", std::string(failure.status.message())},
                       {"field", failure.field},
                       {"hint", failure.hint},
                       {"request_id", style.request_id}}}};
  return PrintJsonText(json, JsonForm::kIndented);
}

int ReportFailure(const Failure& failure, const ErrorStyle& style) {
  std::cerr << "stagecoach: " << failure.status.message() << "\n";
  if (!failure.hint.empty()) std::cerr << failure.hint << "\n";
  if (style.json) std::cout << FailureJson(failure, style) << "\n";
  return failure.code;
}

}  // namespace stagecoach
