#ifndef STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/frozen_layers.h"
#include "common/skip_connections.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/tied_tensor.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What every pass of the lowering reads. Constant while they run.
struct LoweringContext {
  const v1::ComputeTable& table;  // F, I, W and R alone: each B has become an I and a W
  const v1::ModelGraph& graph;
  const v1::Plan& plan;
  LoweringOptions options;
  bool forward_only = false;
  std::optional<TiedTensor> tie = std::nullopt;  // that is trained
  std::vector<StageBackward> backward;           // [num_stages], of a training table
  std::vector<SkipEdge> skip_edges = {};         // as SkipEdgesOf has them

  uint32_t num_stages() const { return table.num_stages(); }
  bool IsLast(uint32_t stage) const { return stage + 1 == num_stages(); }
  const v1::StagePlan& StageAt(uint32_t stage) const { return plan.stages(static_cast<int>(stage)); }
  uint32_t WorkerOf(uint32_t stage) const { return StageAt(stage).worker_rank(); }
  bool Recomputes(uint32_t stage) const { return !StageAt(stage).recomputed_layers().empty(); }
  bool HasInput(uint32_t stage) const { return !forward_only && backward[stage].input; }
  bool HasWeight(uint32_t stage) const { return !forward_only && backward[stage].weight; }
  bool SendsGradient(uint32_t stage) const { return !forward_only && backward[stage].sends_gradient; }
  // Nothing that comes back holds its forwards up.
  bool RunsAhead(uint32_t stage) const { return !forward_only && !backward[stage].input; }
  const v1::WorkerActions& RowOf(uint32_t worker) const { return table.workers(static_cast<int>(worker)); }
  uint32_t StageOfLayer(uint32_t layer) const;
};

// A channel of the pipeline and all that passes over it in a step. Of one within a worker only `spec` is used.
struct ChannelPlan {
  v1::ChannelSpec spec;               // but for num_slots, as long as the receives are not placed
  uint32_t index_at_sender = 0;       // in the program's channels
  uint32_t index_at_receiver = 0;     // likewise
  uint32_t num_send_slots = 0;        // buffers at the sender
  uint32_t window = UINT32_MAX;       // posts that may be outstanding
  std::vector<uint32_t> order;        // micro-batches, as sent: entry n is transfer n
  std::vector<uint32_t> producer;     // [n] index in the sender's row of the action that makes it
  std::vector<uint32_t> consumer;     // [n] index in the receiver's row of the action that reads it
  std::vector<uint32_t> post_before;  // [n] index in the receiver's row of the action that the receive comes before

  bool is_local() const { return spec.from_worker_rank() == spec.to_worker_rank(); }
};

// Channels, as indices in ChannelPlans, ascending by the stage at the other end.
struct SkipEnds {
  std::vector<size_t> recv, send;
};

// All channels of a pipeline: those down the cuts, those up again, those of skip edges, down and up, those of the tie.
struct ChannelPlans {
  std::vector<ChannelPlan> channels;
  uint32_t num_cuts = 0;
  uint32_t first_gradient = 0;  // the lowest stage that a gradient comes to: no cut below it has one
  bool has_tie = false;
  std::vector<SkipEnds> forward_skips, backward_skips;  // [num_stages] of its F, and of its I
  SkipEnds no_skips = {};

  ChannelPlan& Activation(uint32_t from_stage) { return channels[from_stage]; }
  ChannelPlan& Gradient(uint32_t to_stage) { return channels[num_cuts + to_stage - first_gradient]; }
  const SkipEnds& SkipsOf(const v1::Action& action) const {
    if (action.kind() == v1::ACTION_KIND_FORWARD) return forward_skips[action.stage()];
    return action.kind() == v1::ACTION_KIND_BACKWARD_INPUT ? backward_skips[action.stage()] : no_skips;
  }
  // From the stage of the tie's owner, or from that of its later use.
  ChannelPlan& Tie(bool from_lower) { return channels[channels.size() - (from_lower ? 2 : 1)]; }
};

// Whether it carries what F makes, and not what I makes.
inline bool IsForward(v1::ChannelKind kind) {
  return kind == v1::CHANNEL_KIND_ACTIVATION || kind == v1::CHANNEL_KIND_SKIP;
}

using Programs = std::vector<v1::StageProgram>;  // by worker rank

// In the order in which Lower runs them.

// The channels, with producers and consumers. INVALID_ARGUMENT: one is not first in, first out, or has no size.
absl::StatusOr<ChannelPlans> PlanChannels(const LoweringContext& context);
// post_before, the number of slots and of send slots. INVALID_ARGUMENT: the table cannot run.
enum class ReceivePlacement {
  kPredicted,  // just before the simulator says that the sender issues the transfer, a few at most from a stage
               // that would run ahead for ever
  kPredictedUnbounded,  // without that exception
  kEarliest,            // as soon as the credit window allows
};
absl::Status PlaceReceives(const LoweringContext& context, ReceivePlacement placement, ChannelPlans& channels);
// Programs without slots: channels, and instructions in their order.
Programs EmitPrograms(const LoweringContext& context, ChannelPlans& channels);
// Slots of all instructions, and their places in one arena for each worker. INVALID_ARGUMENT: an action comes before
// what it needs. RESOURCE_EXHAUSTED: sizes that no machine has.
absl::Status AssignSlots(const LoweringContext& context, const ChannelPlans& channels, Programs& programs);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_
