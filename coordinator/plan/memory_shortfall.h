#ifndef STAGECOACH_COORDINATOR_PLAN_MEMORY_SHORTFALL_H_
#define STAGECOACH_COORDINATOR_PLAN_MEMORY_SHORTFALL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/plan/partition_problem.h"

namespace stagecoach {

// What the workers of a partition that does not fit lack.
struct MemoryShortfall {
  StagePartition stages;
  uint32_t worker_rank = 0;   // the worst
  uint64_t needed_bytes = 0;  // by its stages, when they recompute all that they can
  uint64_t memory_bytes = 0;  // that it has
};

// Of the partitions, the one whose worst worker lacks least, to about a thousandth (more where BalancedPartition is not
// exact). The problem has passed CheckPartitionProblem, and no partition of it fits. Pure.
MemoryShortfall LeastShortfall(const PartitionProblem& problem);

// Of given stages, which do not fit.
MemoryShortfall ShortfallOfStages(const PartitionProblem& problem, const StagePartition& stages);

// "stage 2 (layers 5 to 8) needs 12 bytes and its worker has 10: 2 bytes are lacking". RESOURCE_EXHAUSTED.
absl::Status ShortfallError(const PartitionProblem& problem, const MemoryShortfall& shortfall);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_MEMORY_SHORTFALL_H_
