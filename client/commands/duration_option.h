#ifndef STAGECOACH_CLIENT_COMMANDS_DURATION_OPTION_H_
#define STAGECOACH_CLIENT_COMMANDS_DURATION_OPTION_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "client/output/times.h"

namespace stagecoach {

// An option like `--timeout 30s`.
inline CLI::Option* AddDurationOption(CLI::App& verb, const std::string& name, std::optional<absl::Duration>& duration,
                                      const std::string& description) {
  const auto set = [name, &duration](const std::string& text) {
    const absl::StatusOr<absl::Duration> parsed = ParseDuration(text);
    if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
    duration = *parsed;
  };
  return verb.add_option_function<std::string>(name, set, description)->type_name("DURATION");
}

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_DURATION_OPTION_H_
