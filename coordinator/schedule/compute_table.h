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

// No time is longer, in whatever unit, so that no sum of times overflows.
inline constexpr double kMaxSeconds = 1e100;

// INVALID_ARGUMENT when `schedule` can make no table for the problem; names the value that is wrong and its index.
absl::Status CheckProblem(const ScheduleProblem& problem, const Schedule& schedule);

// The times of the problem alone: as many as there are stages and edges, none negative, infinite or not a number, and
// skip edges that lead from a stage to a later one.
absl::Status CheckTimes(const ScheduleProblem& problem, uint32_t num_stages);

// A table with an empty row for each worker.
v1::ComputeTable EmptyTable(const ScheduleProblem& problem, absl::string_view schedule);

void Append(v1::WorkerActions& row, v1::ActionKind kind, uint32_t stage, uint32_t micro_batch);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_COMPUTE_TABLE_H_
