#include "coordinator/program/stage_memory.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/program/arena_shares.h"
#include "coordinator/program/tied_tensor.h"

namespace stagecoach {

StageElements ElementsOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer) {
  StageElements elements;
  std::set<std::string> names;
  for (uint32_t layer = first_layer; layer <= last_layer; ++layer) {
    const v1::LayerSpec& spec = graph.layers(static_cast<int>(layer));
    for (const v1::ParameterSpec& parameter : spec.parameters()) {
      const uint64_t count = NumElements(parameter);
      const uint64_t trained = spec.frozen() ? 0 : count;
      elements.accumulators += trained;
      if (names.insert(parameter.name()).second) {
        elements.values += count;
        elements.trained_values += trained;
      }
      if (parameter.has_tied_to_layer()) continue;
      elements.owned_values += count;
      elements.owned_trained_values += trained;
    }
  }
  return elements;
}

uint64_t SnapshotBytes(const StageElements& elements, const StateOptions& state) {
  return elements.owned_values * kParameterBytes + elements.owned_trained_values * state.optimizer_bytes_per_element;
}

void FillStageMemory(const v1::ModelGraph& graph, std::span<const v1::StageProgram> programs,
                     std::span<const v1::StageProgram> evaluation_programs, const StateOptions& state, v1::Plan& plan) {
  std::vector<std::map<uint32_t, v1::StageMemory>> shares;  // by worker rank, stage
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    shares.push_back(ShareArena(programs[rank]));
    if (evaluation_programs.empty() || shares.back().empty()) continue;
    const uint64_t needed = evaluation_programs[rank].arena_bytes();
    v1::StageMemory& first = shares.back().begin()->second;
    if (needed > programs[rank].arena_bytes())
      first.set_scratch(first.scratch() + needed - programs[rank].arena_bytes());
  }
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    v1::StagePlan& stage_plan = *plan.mutable_stages(stage);
    v1::StageMemory& memory = *stage_plan.mutable_memory_bytes();
    memory = shares[stage_plan.worker_rank()][static_cast<uint32_t>(stage)];
    const StageElements elements = ElementsOfStage(graph, stage_plan.first_layer(), stage_plan.last_layer());
    stage_plan.set_parameters(elements.values);
    memory.set_parameters(elements.values * kParameterBytes);
    memory.set_gradients(elements.accumulators * kParameterBytes);
    memory.set_optimizer(elements.trained_values * state.optimizer_bytes_per_element);
    if (state.takes_snapshots) memory.set_snapshot(SnapshotBytes(elements, state));
    memory.set_total(memory.parameters() + memory.gradients() + memory.optimizer() + memory.snapshot() +
                     memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch());
  }
}

}  // namespace stagecoach
