#ifndef STAGECOACH_COORDINATOR_PLAN_PARTITION_DESCENT_H_
#define STAGECOACH_COORDINATOR_PLAN_PARTITION_DESCENT_H_

#include <vector>

#include "coordinator/plan/partition_problem.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {

// A good partition where PartitionSearch would take too long: from one that balances the stages, as if each had a
// worker of its own with a share of the memory, runs of neighbouring cuts are moved by a layer as long as that lessens,
// in this order: the bytes that workers lack, the time of the slowest worker, that of the slowest stage, the bytes
// behind the cuts. A local optimum; workers may lack memory although another partition fits.
std::vector<std::vector<LayerSpan>> DescendToPartition(const PartitionProblem& problem, const WorkerLoads& loads);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PARTITION_DESCENT_H_
