#ifndef STAGECOACH_COORDINATOR_PROGRAM_SKIP_INFERENCE_H_
#define STAGECOACH_COORDINATOR_PROGRAM_SKIP_INFERENCE_H_

#include <span>

#include "absl/status/status.h"
#include "coordinator/program/uniform_model.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Adds skip connections to a model of stages whose channels speak of them. Channels say which stages each joins, not
// which layers: starts and ends are the first layers that are free. One that no channel carries, and that is numbered
// before one that some does, is within the first stage that has layers and scratch for it. INVALID_ARGUMENT: there are
// no such layers. Pure.
absl::Status InferSkipConnections(std::span<const v1::StageProgram> programs, PlannedModel& model);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_SKIP_INFERENCE_H_
