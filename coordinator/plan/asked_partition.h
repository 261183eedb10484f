#ifndef STAGECOACH_COORDINATOR_PLAN_ASKED_PARTITION_H_
#define STAGECOACH_COORDINATOR_PLAN_ASKED_PARTITION_H_

#include "absl/status/statusor.h"
#include "coordinator/plan/partition.h"
#include "coordinator/plan/partition_problem.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// Cuts a model as a specification asks: `auto` is BalancedPartition; `even` cuts in equal numbers of blocks (the first
// stages take what is left over), a list says how many blocks each stage has. What comes before the first block goes
// with it, what comes after the last one likewise. Pure. INVALID_ARGUMENT: see CheckPartitionProblem, or a list that
// does not fit the stages or the blocks. RESOURCE_EXHAUSTED: it does not fit the workers' memory; for
// stages that were asked for, with what they lack.
absl::StatusOr<Partition> PartitionAsAsked(const PartitionProblem& problem, const v1::PartitionSpec& spec);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_ASKED_PARTITION_H_
