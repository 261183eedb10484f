#ifndef STAGECOACH_COORDINATOR_PLAN_PARTITION_H_
#define STAGECOACH_COORDINATOR_PLAN_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// Layers [first, last] of one stage.
struct LayerRange {
  uint32_t first = 0;
  uint32_t last = 0;
  bool operator==(const LayerRange&) const = default;
};
using StagePartition = std::vector<LayerRange>;  // [num_stages], in pipeline order

struct PartitionProblem {
  std::vector<double> cost_of_layer;     // time of forward and backward, any unit
  std::vector<uint64_t> boundary_bytes;  // [num_layers] crossing a cut after the layer
  std::vector<bool> is_block;            // [num_layers] every stage must hold at least one of these
  std::vector<double> speed_of_stage;    // [num_stages] a stage's time is its cost / its speed
};

// The contiguous partition whose slowest stage is fastest; among those the one with the fewest boundary bytes, then the
// one with the earliest cuts. Exact: dynamic programming over layers, O(num_stages x num_layers^2). Pure.
// INVALID_ARGUMENT: no stage, or more stages than blocks (with both numbers).
absl::StatusOr<StagePartition> BalancedPartition(const PartitionProblem& problem);

// Cuts a graph as a specification asks: `auto` balanced by analytic cost, `even` in equal numbers of blocks (the first
// stages take what is left over), or a list of blocks per stage. What comes before the first block goes with it, what
// comes after the last one likewise. INVALID_ARGUMENT as above, or a list that does not fit the stages or the blocks.
absl::StatusOr<StagePartition> PartitionGraph(const v1::ModelGraph& graph, const v1::PartitionSpec& spec,
                                              const std::vector<double>& speed_of_stage);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PARTITION_H_
