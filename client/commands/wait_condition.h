#ifndef STAGECOACH_CLIENT_COMMANDS_WAIT_CONDITION_H_
#define STAGECOACH_CLIENT_COMMANDS_WAIT_CONDITION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// What `wait --for` waits for: "running", "step=N", "checkpoint" or "terminal".
struct WaitCondition {
  enum class Kind { kRunning, kStep, kCheckpoint, kTerminal };
  Kind kind = Kind::kTerminal;
  uint64_t step = 0;  // kStep
};
// INVALID_ARGUMENT.
absl::StatusOr<WaitCondition> ParseWaitCondition(absl::string_view text);

// kNever: the job has ended, and without it. A job that has succeeded has been running.
enum class WaitProgress { kNotYet, kMet, kNever };
WaitProgress Evaluate(const WaitCondition& condition, const v1::Job& job);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_WAIT_CONDITION_H_
