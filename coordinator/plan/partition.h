#ifndef STAGECOACH_COORDINATOR_PLAN_PARTITION_H_
#define STAGECOACH_COORDINATOR_PLAN_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/plan/partition_problem.h"

namespace stagecoach {

struct Partition {
  StagePartition stages;
  std::vector<std::vector<uint32_t>> recomputed_layers;  // [num_stages] ascending
  double bottleneck_seconds = 0;   // of one micro-batch on the slowest worker: all its stages, recomputation included
  double lower_bound_seconds = 0;  // no partition that fits is faster; equal to the bottleneck when `is_optimal`
  bool is_optimal = false;         // nothing is better
};

// Some seconds of searching, all in all.
inline constexpr uint64_t kMaxMoves = 10'000'000;

// Cuts the layers into contiguous stages that fit their workers' memory. The best partition has the fastest slowest
// worker; of those the fastest slowest stage; of those the fewest bytes behind cuts between workers; of those the one
// in which the first worker has the fewest layers on its first stage, then on its second one, then the second worker,
// and so on (in a loop, first the one whose later chunks begin earliest): with one stage per worker, the earliest cuts.
// A worker recomputes layers only when it must, those that take the least time (CheapestRecomputation; the saved bytes
// of one micro-batch, and the shared ones of those whose weight gradient is pending, are then needed anyway).
//
// What is exact: with one stage per worker, everything (dynamic programming, num_workers x num_layers^2 moves at most).
// With two to kMaxSearchedChunks, everything as long as the search needs at most `max_moves` moves a pass, as it does
// for tens of layers; `is_optimal` says whether it did. Beyond, a local optimum (partition_descent.h) with a lower
// bound, and RESOURCE_EXHAUSTED may then be wrong. Where a knapsack is thinned (recomputation.h), `is_optimal` holds
// but for that.
//
// Pure. INVALID_ARGUMENT: see CheckPartitionProblem. RESOURCE_EXHAUSTED: no partition fits; memory_shortfall.h
// says what is lacking.
absl::StatusOr<Partition> BalancedPartition(const PartitionProblem& problem, uint64_t max_moves = kMaxMoves);

// The least recomputation with which given stages fit, with the bounds of that very cut. The problem has passed
// CheckPartitionProblem; the stages cover its layers. RESOURCE_EXHAUSTED: they do not fit.
absl::StatusOr<Partition> PartitionOfStages(const PartitionProblem& problem, const StagePartition& stages);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PARTITION_H_
