#ifndef STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/tied_tensor.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What every pass of the lowering reads. Constant while they run.
struct LoweringContext {
  const v1::ComputeTable& table;
  const v1::ModelGraph& graph;
  const v1::Plan& plan;
  LoweringOptions options;
  bool forward_only = false;
  std::optional<TiedTensor> tie = std::nullopt;

  uint32_t num_stages() const { return table.num_stages(); }
  bool IsLast(uint32_t stage) const { return stage + 1 == num_stages(); }
  const v1::StagePlan& StageAt(uint32_t stage) const { return plan.stages(static_cast<int>(stage)); }
  uint32_t WorkerOf(uint32_t stage) const { return StageAt(stage).worker_rank(); }
  uint32_t StageOfLayer(uint32_t layer) const;
};

using Programs = std::vector<v1::StageProgram>;  // by worker rank

// In the order in which Lower runs them. Each adds to the programs what its name says and reads what the ones before
// have added.
void ExpandTable(const LoweringContext& context, Programs& programs);  // F, I, W
void PlaceLoadsAndLosses(const LoweringContext& context, Programs& programs);
absl::Status PlaceChannels(const LoweringContext& context, Programs& programs);
absl::Status PlaceReceives(const LoweringContext& context, Programs& programs);
void PlaceSends(const LoweringContext& context, Programs& programs);
void PlaceTiesAndNorms(const LoweringContext& context, Programs& programs);
absl::Status AssignSlots(const LoweringContext& context, Programs& programs);
absl::Status LayOutArenas(const LoweringContext& context, Programs& programs);

// An instruction without slots.
v1::Instruction MakeInstruction(v1::ActionKind kind, uint32_t stage, uint32_t micro_batch);

// Replaces each instruction by what `rewrite` appends for it.
using Emit = std::function<void(const v1::Instruction&)>;
void RewriteInstructions(v1::StageProgram& program,
                         const std::function<void(v1::Instruction& instruction, const Emit& emit)>& rewrite);

// Index of a channel in a program that has it.
uint32_t ChannelIndex(const v1::StageProgram& program, v1::ChannelKind kind, uint32_t from_stage);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_LOWERING_PASSES_H_
