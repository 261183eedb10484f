#include "common/simulated_device.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr double kMaxBlockSeconds = 3600;
constexpr absl::string_view kExpected =
    "expected seconds of a block's forward, backward for input and backward for weight, such as 0.02,0.02,0.02";

absl::StatusOr<double> ParseSeconds(absl::string_view text) {
  double seconds = 0;
  // Also false of what is not a number.
  if (absl::SimpleAtod(text, &seconds) && seconds >= 0 && seconds <= kMaxBlockSeconds) return seconds;
  return absl::InvalidArgumentError(absl::StrCat("--simulated-block-seconds: \"", text, "\" is no time from 0 to ",
                                                 kMaxBlockSeconds, " seconds; ", kExpected));
}

absl::StatusOr<SimulatedCosts> ParseCosts(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("--simulated-block-seconds: \"", text, "\" has ", parts.size(),
                                                   parts.size() == 1 ? " value; " : " values; ", kExpected));
  }
  SimulatedCosts costs;
  STAGECOACH_ASSIGN_OR_RETURN(costs.forward, ParseSeconds(parts[0]));
  STAGECOACH_ASSIGN_OR_RETURN(costs.backward_input, ParseSeconds(parts[1]));
  STAGECOACH_ASSIGN_OR_RETURN(costs.backward_weight, ParseSeconds(parts[2]));
  return costs;
}

}  // namespace

absl::StatusOr<std::optional<SimulatedCosts>> SimulatedCostsOf(absl::string_view device, absl::string_view text) {
  if (device != kSimulatedDevice) {
    if (text.empty()) return std::nullopt;
    return absl::InvalidArgumentError(
        absl::StrCat("--simulated-block-seconds is for device ", kSimulatedDevice, ", and the device is ", device));
  }
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", kSimulatedDevice, " needs --simulated-block-seconds; ", kExpected));
  }
  return ParseCosts(text);
}

}  // namespace stagecoach
