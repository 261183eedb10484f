#ifndef STAGECOACH_COORDINATOR_SCHEDULE_PRUNED_TABLE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_PRUNED_TABLE_H_

#include <vector>

#include "common/frozen_layers.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// The table of any schedule without what frozen layers make unnecessary: I, and R before it, of stages that have
// nothing to train in them or below; W of stages that have nothing to train in them. What is left stands in the order
// of the table, and waits for less than before. `backward`: [table.num_stages()]. Pure.
v1::ComputeTable WithoutFrozen(const v1::ComputeTable& table, const std::vector<StageBackward>& backward);

// What the stages of a table do in the backward, as its actions say. [table.num_stages()]
std::vector<StageBackward> BackwardOfTable(const v1::ComputeTable& table);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_PRUNED_TABLE_H_
