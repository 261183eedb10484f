#ifndef STAGECOACH_COORDINATOR_PLAN_LAYER_LOADS_H_
#define STAGECOACH_COORDINATOR_PLAN_LAYER_LOADS_H_

#include <optional>
#include <vector>

#include "coordinator/plan/partition_problem.h"
#include "coordinator/program/stage_memory.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// The bytes that the layers of a graph add to their stages: those that FillStageMemory finds, by layer. Their seconds
// are 0, and none can be recomputed.
std::vector<LayerLoad> LayerLoadsOf(const v1::ModelGraph& graph, const StateOptions& state);

// The tied tensor of a graph, if it has one (an ill-formed tie counts as none: lowering refuses it).
std::optional<TiedLayers> TiedLayersOf(const v1::ModelGraph& graph, const StateOptions& state);

// The tensors of its skip connections, padded as the slots of a stage are.
std::vector<SkipLoad> SkipLoadsOf(const v1::ModelGraph& graph);

// Of one load slot: tokens and labels of a micro-batch.
uint64_t LoadBytesOf(const v1::ModelGraph& graph);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_LAYER_LOADS_H_
