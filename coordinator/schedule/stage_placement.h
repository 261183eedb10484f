#ifndef STAGECOACH_COORDINATOR_SCHEDULE_STAGE_PLACEMENT_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_STAGE_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Which worker holds a global stage, for P workers.
enum class StagePlacement {
  kLoop,  // stage s on worker s mod P
  kV,     // two chunks: down the workers and up again, stage s < P on worker s, the others on worker 2P-1-s
};

// `num_workers` is at least 1; with kV, `stage` is below 2 * num_workers.
uint32_t WorkerOfStage(StagePlacement placement, uint32_t num_workers, uint32_t stage);

// The worker of each stage, from the rows. [table.num_stages()] INVALID_ARGUMENT names a stage that two workers have,
// none has, or that is not one of the table's.
absl::StatusOr<std::vector<uint32_t>> WorkersOfStages(const v1::ComputeTable& table);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_STAGE_PLACEMENT_H_
