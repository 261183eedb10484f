#ifndef STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_
#define STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_

#include <cstdint>
#include <span>

#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// Elements that a stage holds, and elements of its gradient accumulators: one value for each tensor, one accumulator
// for each use. A tied copy whose owner is on a lower stage is held and not owned.
struct StageElements {
  uint64_t values = 0;
  uint64_t owned_values = 0;
  uint64_t accumulators = 0;
};
StageElements ElementsOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer);

// What a job says about the state of its stages.
struct StateOptions {
  uint64_t optimizer_bytes_per_element = 0;
  bool takes_snapshots = false;  // of parameters and optimizer state, as far as they are owned: see TakesSnapshots
};

// Fills parameters and memory_bytes of every stage. The kinds are those of the training programs, see ShareArena;
// `evaluation_programs` (may be empty) run in the same arenas, and what they need beyond it is counted as scratch of
// their worker's lowest stage.
void FillStageMemory(const v1::ModelGraph& graph, std::span<const v1::StageProgram> programs,
                     std::span<const v1::StageProgram> evaluation_programs, const StateOptions& state, v1::Plan& plan);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_STAGE_MEMORY_H_
