#ifndef STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_
#define STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_

#include <cstdint>
#include <vector>

#include "coordinator/plan/partition_problem.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// How many slots of each lifetime the stages of a compute-only table need when it is lowered, with channels of
// `credit_window` slots at each end. [table.num_stages()] The table's actions are of its stages.
std::vector<StageSlotCounts> SlotCountsOf(const v1::ComputeTable& table, uint32_t credit_window);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_
