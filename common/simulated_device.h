#ifndef STAGECOACH_COMMON_SIMULATED_DEVICE_H_
#define STAGECOACH_COMMON_SIMULATED_DEVICE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// The kind of device whose stages compute nothing and take modelled time instead. A job gets such workers when its
// resources.device says so, and no others then.
inline constexpr absl::string_view kSimulatedDevice = "simulated";

// Seconds of one transformer block with a full micro-batch; embedding, final norm and head take none, so that stages of
// as many blocks are equal.
struct SimulatedCosts {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
};

// The value of --simulated-block-seconds beside that of --device: "F,I,W", each from 0 to an hour; empty: not given.
// Nothing when the device is another one. INVALID_ARGUMENT: the device is simulated and the costs are missing or
// wrong, or they are given and it is not.
absl::StatusOr<std::optional<SimulatedCosts>> SimulatedCostsOf(absl::string_view device, absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_SIMULATED_DEVICE_H_
