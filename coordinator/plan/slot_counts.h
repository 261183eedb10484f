#ifndef STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_
#define STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_

#include <cstdint>
#include <vector>

#include "coordinator/plan/partition_problem.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Slots of one direction of a cut at one end that are reckoned with: one that is read or written, one that is under
// way. Lowering gives a channel what its times need, which may be another number: what it needs altogether is then
// compared with the worker's memory.
inline constexpr uint32_t kTransferSlots = 2;

// How many slots of each lifetime the stages of a compute-only table need when it is lowered: exact but for transfers.
// [table.num_stages()] The table's actions are of its stages; an R stands right before its B or I.
std::vector<StageSlotCounts> SlotCountsOf(const v1::ComputeTable& table);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_SLOT_COUNTS_H_
