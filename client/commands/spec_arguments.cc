#include "client/commands/spec_arguments.h"

#include <iostream>

#include "client/commands/order_file.h"
#include "client/commands/text_input.h"
#include "client/output/error_report.h"
#include "common/status_macros.h"
#include "coordinator/spec/order_reader.h"

namespace stagecoach {
namespace {

// More than the parser accepts, so that the parser is the one to say what the limit is.
constexpr uint64_t kMaxSpecFileBytes = 64 << 20;

absl::StatusOr<std::vector<SpecOverride>> ParseOverrides(const std::vector<std::string>& texts) {
  std::vector<SpecOverride> overrides;
  for (const std::string& text : texts) {
    STAGECOACH_ASSIGN_OR_RETURN(SpecOverride override, ParseOverride(text));
    overrides.push_back(std::move(override));
  }
  return overrides;
}

}  // namespace

void AddSpecArguments(CLI::App& verb, SpecArguments& arguments) {
  verb.add_option("spec", arguments.file, "job specification, YAML or JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  verb.add_option("--set", arguments.overrides, "override a key: training.steps=100 (repeatable; the value is YAML)")
      ->allow_extra_args(false);
}

std::optional<v1::JobSpec> LoadSpec(const SpecArguments& arguments, bool json) {
  const ErrorStyle style{.json = json};
  const absl::StatusOr<std::string> text = ReadTextInput(arguments.file, kMaxSpecFileBytes);
  if (!text.ok()) {
    ReportFailure({.code = kExitUsage, .status = text.status()}, style);
    return std::nullopt;
  }
  const absl::StatusOr<std::vector<SpecOverride>> overrides = ParseOverrides(arguments.overrides);
  if (!overrides.ok()) {
    ReportFailure({.code = kExitUsage, .status = WithContext(overrides.status(), "--set")}, style);
    return std::nullopt;
  }
  std::vector<SpecError> errors;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpecWith(*text, *overrides, ReadOrderFile, errors);
  if (spec.ok()) return *std::move(spec);
  for (const SpecError& error : errors) std::cerr << FormatSpecError(arguments.file, error) << "\n";
  Failure failure{.code = kExitUsage, .status = spec.status()};
  if (!errors.empty()) {
    failure.status = absl::InvalidArgumentError(FormatSpecError(arguments.file, errors.front()));
    failure.field = errors.front().path;
    failure.hint = errors.front().hint;
  }
  if (json) std::cout << FailureJson(failure, style) << "\n";
  if (errors.empty()) std::cerr << "stagecoach: " << failure.status.message() << "\n";
  return std::nullopt;
}

}  // namespace stagecoach
