#include "coordinator/program/stage_memory.h"

#include <set>
#include <string>

#include "coordinator/program/tied_tensor.h"

namespace stagecoach {
namespace {

uint64_t SumOfBytes(const google::protobuf::RepeatedPtrField<v1::Slot>& slots) {
  uint64_t bytes = 0;
  for (const v1::Slot& slot : slots) bytes += slot.bytes();
  return bytes;
}

void AddArena(const v1::StageProgram& program, uint32_t stage_index, v1::StageMemory& memory) {
  for (const v1::StageSlots& stage : program.stages()) {
    if (stage.stage() != stage_index) continue;
    memory.set_activations(SumOfBytes(stage.load()) + SumOfBytes(stage.saved()) + SumOfBytes(stage.shared()));
    memory.set_pending_weight(SumOfBytes(stage.pending()));
  }
  uint64_t receive = 0;
  for (int i = 0; i < program.channels_size(); ++i) {
    const v1::ChannelSpec& channel = program.channels(i);
    if (channel.from_stage() != stage_index && channel.to_stage() != stage_index) continue;
    receive += SumOfBytes(program.channel_slots(i).slots());
  }
  memory.set_receive(receive);
  // Every stage of a worker needs the scratch region, which exists once: with several stages this counts too much.
  memory.set_scratch(program.scratch().bytes());
}

uint64_t ArenaPart(const v1::StageMemory& memory) {
  return memory.activations() + memory.pending_weight() + memory.receive() + memory.scratch();
}

}  // namespace

StageElements ElementsOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer) {
  StageElements elements;
  std::set<std::string> names;
  for (uint32_t layer = first_layer; layer <= last_layer; ++layer) {
    for (const v1::ParameterSpec& parameter : graph.layers(static_cast<int>(layer)).parameters()) {
      elements.accumulators += NumElements(parameter);
      if (names.insert(parameter.name()).second) elements.values += NumElements(parameter);
      if (!parameter.has_tied_to_layer()) elements.owned_values += NumElements(parameter);
    }
  }
  return elements;
}

void FillStageMemory(const v1::ModelGraph& graph, std::span<const v1::StageProgram> programs,
                     std::span<const v1::StageProgram> evaluation_programs, const StateOptions& state, v1::Plan& plan) {
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    v1::StagePlan& stage_plan = *plan.mutable_stages(stage);
    v1::StageMemory& memory = *stage_plan.mutable_memory_bytes();
    const StageElements elements = ElementsOfStage(graph, stage_plan.first_layer(), stage_plan.last_layer());
    stage_plan.set_parameters(elements.values);
    memory.set_parameters(elements.values * kParameterBytes);
    memory.set_gradients(elements.accumulators * kParameterBytes);
    memory.set_optimizer(elements.values * state.optimizer_bytes_per_element);
    if (state.takes_snapshots) {
      memory.set_snapshot(elements.owned_values * (kParameterBytes + state.optimizer_bytes_per_element));
    }
    AddArena(programs[stage_plan.worker_rank()], static_cast<uint32_t>(stage), memory);
    if (!evaluation_programs.empty()) {
      const uint64_t needed = evaluation_programs[stage_plan.worker_rank()].arena_bytes();
      const uint64_t planned = ArenaPart(memory);
      if (needed > planned) memory.set_scratch(memory.scratch() + (needed - planned));
    }
    memory.set_total(memory.parameters() + memory.gradients() + memory.optimizer() + memory.snapshot() +
                     ArenaPart(memory));
  }
}

}  // namespace stagecoach
