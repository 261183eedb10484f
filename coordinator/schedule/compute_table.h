#ifndef STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_TABLE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What schedules share. A transfer's tag has 12 bits for the stage and 16 for the micro-batch (worker/transport), hence
// the first two limits; the third keeps a mistyped number from filling the memory.
inline constexpr uint64_t kMaxStages = 4096;
inline constexpr uint64_t kMaxMicroBatches = 65536;
inline constexpr uint64_t kMaxForwards = 1 << 22;

// INVALID_ARGUMENT when no table of one chunk per worker can be made for the problem; names the number that is wrong.
absl::Status CheckOneChunkProblem(const ScheduleProblem& problem, absl::string_view schedule);

// A table with an empty row for each worker.
v1::ComputeTable EmptyTable(const ScheduleProblem& problem, absl::string_view schedule);

void Append(v1::WorkerActions& row, v1::ActionKind kind, uint32_t stage, uint32_t micro_batch);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_TABLE_H_
