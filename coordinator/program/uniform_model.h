#ifndef STAGECOACH_COORDINATOR_PROGRAM_UNIFORM_MODEL_H_
#define STAGECOACH_COORDINATOR_PROGRAM_UNIFORM_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// A model, and how it is cut, for tools that have a schedule and no job. Memory of the plan is not filled in: see
// FillStageMemory.
struct PlannedModel {
  v1::ModelGraph graph;
  v1::Plan plan;
};

// As many equal layers as there are stages, one on each, with tensors of one size between them.
// `cost_of_stage` may be empty: all alike; so may `recomputes`, by stage: none. Pure.
PlannedModel MakeUniformModel(const std::vector<uint32_t>& worker_of_stage, uint32_t num_micro_batches,
                              const std::vector<StageCost>& cost_of_stage, const std::vector<bool>& recomputes);

// The least that programs say about the model that they were made for: their stages' layers, the sizes of tensors that
// cross cuts, whether a tensor is tied, which stages skip connections join. INVALID_ARGUMENT: they are not of one
// pipeline. Pure.
absl::StatusOr<PlannedModel> ModelOfPrograms(std::span<const v1::StageProgram> programs);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_UNIFORM_MODEL_H_
