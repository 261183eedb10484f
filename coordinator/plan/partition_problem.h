#ifndef STAGECOACH_COORDINATOR_PLAN_PARTITION_PROBLEM_H_
#define STAGECOACH_COORDINATOR_PLAN_PARTITION_PROBLEM_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/schedule/stage_placement.h"

namespace stagecoach {

// Layers [first, last] of one stage.
struct LayerRange {
  uint32_t first = 0;
  uint32_t last = 0;
  bool operator==(const LayerRange&) const = default;
};
using StagePartition = std::vector<LayerRange>;  // [num_stages], in pipeline order

// What one layer adds to its stage. Seconds and bytes of a full micro-batch, seconds on a worker of speed 1; the bytes
// are those of LayerCost in plan.proto, as the slots of a stage hold them (coordinator/program/slot_sizes.h).
struct LayerLoad {
  double forward_seconds = 0;
  double backward_input_seconds = 0;
  double backward_weight_seconds = 0;
  // What making the saved and shared bytes again before the backward takes, from the layer's input, which is kept;
  // infinite: they are kept too.
  double recompute_seconds = std::numeric_limits<double>::infinity();
  bool is_always_recomputed = false;  // however much memory there is
  bool is_block = true;               // every stage must hold at least one of these
  uint64_t state_bytes = 0;           // parameters, gradients, optimizer, snapshot: once, whatever the micro-batches
  uint64_t input_bytes = 0;           // the copy of its input, kept as long as `shared_bytes`
  uint64_t saved_bytes = 0;           // forward until input gradient
  uint64_t shared_bytes = 0;          // forward until weight gradient
  uint64_t pending_bytes = 0;         // input gradient until weight gradient, the output's gradient included
  uint64_t scratch_bytes = 0;         // inside one call
  uint64_t boundary_bytes = 0;        // crosses a cut behind the layer
};

// How many micro-batches' worth of each kind a stage holds at its peak: its schedule says so, whatever the layers.
struct StageSlotCounts {
  uint32_t load = 0;  // PartitionProblem::load_bytes each
  uint32_t saved = 0;
  uint32_t shared = 0;
  uint32_t pending = 0;
  // Of what a recomputed layer has instead of its shared bytes: those whose weight gradient is pending, and that which
  // a forward is making. At least `pending`; a smaller number counts as that.
  uint32_t remade = 0;
  uint32_t transfers_before = 0;  // across the cut in front of the stage, in both directions
  uint32_t transfers_behind = 0;  // across the cut behind it
  bool operator==(const StageSlotCounts&) const = default;
};

struct WorkerCapacity {
  double speed = 1;                                              // a stage's time is that of its layers / speed
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();  // the largest number: no limit
};

// Two layers that use one tensor. `state_bytes` of the later one counts a copy of its own.
struct TiedLayers {
  uint32_t owner_layer = 0;
  uint32_t later_layer = 0;
  uint64_t together_bytes = 0;  // what a stage that holds both needs less
  uint64_t apart_bytes = 0;     // what a stage that holds one of them needs more, to exchange gradients
};

// The tensor of a connection that leads from one layer past others to another.
struct SkipLoad {
  uint32_t from_layer = 0;
  uint32_t to_layer = 0;
  uint64_t bytes = 0;  // of a full micro-batch
  bool has_gradient = true;
};

// A model to cut into num_workers x num_chunks stages.
struct PartitionProblem {
  std::vector<LayerLoad> layers;
  std::vector<WorkerCapacity> workers;
  uint32_t num_chunks = 1;  // stages per worker
  StagePlacement placement = StagePlacement::kLoop;
  std::vector<StageSlotCounts> slots = {};  // [num_workers x num_chunks]; empty: micro-batches need no memory
  uint64_t load_bytes = 0;
  std::optional<TiedLayers> tie = {};
  std::vector<SkipLoad> skips = {};  // ascending by from_layer
  uint32_t num_micro_batches = 0;    // of a step, as far as skips go: the slots say the rest

  size_t num_stages() const { return workers.size() * num_chunks; }
};

inline constexpr size_t kMaxPartitionedLayers = 10000;

// INVALID_ARGUMENT: no stage, more stages than blocks or than one for each layer, counts of other lengths, times or
// speeds that are none, skips of layers that there are not or out of order, bytes that no memory has; the message has
// the numbers.
absl::Status CheckPartitionProblem(const PartitionProblem& problem);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_PARTITION_PROBLEM_H_
