#ifndef STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_
#define STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_

#include <cstdint>
#include <span>

#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Elements that a stage holds, and elements of its gradient accumulators: one value for each tensor, one accumulator
// for each use. A tied copy whose owner is on a lower stage is held and not owned. Frozen layers have values alone.
struct StageElements {
  uint64_t values = 0;
  uint64_t owned_values = 0;
  uint64_t trained_values = 0;        // of `values`, those that have optimizer state
  uint64_t owned_trained_values = 0;  // likewise of `owned_values`
  uint64_t accumulators = 0;
};
StageElements ElementsOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer);

// What a job says about the state of its stages.
struct StateOptions {
  uint64_t optimizer_bytes_per_element = 0;
  bool takes_snapshots = false;  // of parameters and optimizer state, as far as they are owned: see TakesSnapshots
};

// Of the copy that a snapshot is: of what the stage owns.
uint64_t SnapshotBytes(const StageElements& elements, const StateOptions& state);

// Fills parameters and memory_bytes of every stage. The kinds are those of the training programs, see ShareArena;
// `evaluation_programs` (may be empty) run in the same arenas, and what they need beyond it is counted as scratch of
// their worker's lowest stage.
void FillStageMemory(const v1::ModelGraph& graph, std::span<const v1::StageProgram> programs,
                     std::span<const v1::StageProgram> evaluation_programs, const StateOptions& state, v1::Plan& plan);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_
