#include "coordinator/program/uniform_model.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "coordinator/program/skip_inference.h"
#include "coordinator/program/tied_tensor.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

constexpr uint64_t kTensorBytes = kTensorAlignment;
constexpr uint32_t kMaxLayers = 1 << 16;
constexpr char kTiedTensorName[] = "tied.weight";

v1::LayerSpec& AddLayer(uint32_t number, v1::ModelGraph& graph) {
  v1::LayerSpec& layer = *graph.add_layers();
  layer.set_name(absl::StrCat("layer.", number));
  layer.set_kind(v1::LAYER_KIND_TRANSFORMER_BLOCK);
  return layer;
}

struct StageOfProgram {
  uint32_t worker = 0;
  uint32_t first_layer = 0;
  uint32_t last_layer = 0;
  google::protobuf::RepeatedField<uint32_t> recomputed_layers = {};
};
using Stages = std::map<uint32_t, StageOfProgram>;

absl::StatusOr<Stages> StagesOf(std::span<const v1::StageProgram> programs) {
  Stages stages;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    if (programs[rank].worker_rank() != rank) {
      return absl::InvalidArgumentError(absl::StrCat("program ", rank + 1, " is of worker ",
                                                     programs[rank].worker_rank(), "; they go by worker, from 0 on"));
    }
    for (const v1::StageSlots& slots : programs[rank].stages()) {
      const StageOfProgram stage{static_cast<uint32_t>(rank), slots.first_layer(), slots.last_layer(),
                                 slots.recomputed_layers()};
      if (!stages.emplace(slots.stage(), stage).second) {
        return absl::InvalidArgumentError(absl::StrCat("stage ", slots.stage(), " is there twice"));
      }
    }
  }
  if (stages.empty() || stages.rbegin()->first + 1 != stages.size() || stages.size() > kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", stages.size(),
                                                   " stages; they are numbered from 0 "
                                                   "on, without gaps, up to ",
                                                   kMaxStages - 1));
  }
  return stages;
}

// Empty layers; the stages' order is left to the verifier.
absl::Status AddStages(const Stages& stages, PlannedModel& model) {
  uint32_t num_layers = 0;
  for (const auto& [number, stage] : stages) {
    if (stage.first_layer > stage.last_layer || stage.last_layer >= kMaxLayers) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", number, " holds layers ", stage.first_layer, " to ",
                                                     stage.last_layer, "; at most ", kMaxLayers, " are possible"));
    }
    num_layers = std::max(num_layers, stage.last_layer + 1);
    v1::StagePlan& planned = *model.plan.add_stages();
    planned.set_worker_rank(stage.worker);
    planned.set_first_layer(stage.first_layer);
    planned.set_last_layer(stage.last_layer);
    *planned.mutable_recomputed_layers() = stage.recomputed_layers;
  }
  for (uint32_t layer = 0; layer < num_layers; ++layer) AddLayer(layer, model.graph);
  return absl::OkStatus();
}

v1::LayerSpec& LayerAt(uint32_t layer, PlannedModel& model) {
  return *model.graph.mutable_layers(static_cast<int>(layer));
}

void AddParameter(uint64_t bytes, v1::LayerSpec& layer) {
  v1::ParameterSpec& parameter = *layer.add_parameters();
  parameter.set_name(kTiedTensorName);
  parameter.set_dtype(v1::DTYPE_F32);
  parameter.add_shape(bytes / kParameterBytes);
}

// Owned by the first layer of `lower`, used again by the last of `upper`.
absl::Status Tie(uint64_t bytes, const StageOfProgram& lower, const StageOfProgram& upper, PlannedModel& model) {
  v1::LayerSpec& owner = LayerAt(lower.first_layer, model);
  v1::LayerSpec& later = LayerAt(upper.last_layer, model);
  if (lower.first_layer >= upper.last_layer) return absl::InvalidArgumentError("a layer is tied to itself");
  if (!owner.parameters().empty()) return absl::OkStatus();
  AddParameter(bytes, owner);
  AddParameter(bytes, later);
  later.mutable_parameters(0)->set_tied_to_layer(lower.first_layer);
  return absl::OkStatus();
}

absl::Status AddChannel(const v1::ChannelSpec& channel, const Stages& stages, PlannedModel& model) {
  const auto lower = stages.find(std::min(channel.from_stage(), channel.to_stage()));
  const auto upper = stages.find(std::max(channel.from_stage(), channel.to_stage()));
  if (lower == stages.end() || upper == stages.end()) {
    return absl::InvalidArgumentError(absl::StrCat("a channel leads from stage ", channel.from_stage(), " to ",
                                                   channel.to_stage(), "; there are ", stages.size(), " stages"));
  }
  if (channel.kind() == v1::CHANNEL_KIND_TIE) return Tie(channel.bytes(), lower->second, upper->second, model);
  if (IsSkip(channel.kind())) return absl::OkStatus();
  LayerAt(lower->second.last_layer, model).mutable_cost()->set_output_bytes(channel.bytes());
  if (channel.bytes_per_sample() > 0) model.graph.set_micro_batch_size(channel.bytes() / channel.bytes_per_sample());
  return absl::OkStatus();
}

// A tie whose both uses are on one stage has no channel.
absl::Status AddTieWithinStage(const v1::StageProgram& program, const Stages& stages, PlannedModel& model) {
  for (const v1::Instruction& instruction : program.instructions()) {
    const auto stage = stages.find(instruction.action().stage());
    if (instruction.action().kind() != v1::ACTION_KIND_TIE_REDUCE || stage == stages.end()) continue;
    if (instruction.recv_slot() < 0) return Tie(kParameterBytes, stage->second, stage->second, model);
  }
  return absl::OkStatus();
}

}  // namespace

PlannedModel MakeUniformModel(const std::vector<uint32_t>& worker_of_stage, uint32_t num_micro_batches,
                              const std::vector<StageCost>& cost_of_stage, const std::vector<bool>& recomputes) {
  PlannedModel model;
  model.graph.set_micro_batch_size(1);
  model.graph.set_seq_len(1);
  model.plan.set_num_micro_batches(num_micro_batches);
  for (uint32_t number = 0; number < worker_of_stage.size(); ++number) {
    v1::LayerCost& cost = *AddLayer(number, model.graph).mutable_cost();
    cost.set_saved_bytes(kTensorBytes);
    cost.set_shared_bytes(kTensorBytes);
    cost.set_pending_bytes(kTensorBytes);
    cost.set_scratch_bytes(kTensorBytes);
    cost.set_input_bytes(kTensorBytes);
    cost.set_output_bytes(kTensorBytes);
    const StageCost seconds = cost_of_stage.empty() ? StageCost{} : cost_of_stage[number];
    v1::StagePlan& stage = *model.plan.add_stages();
    stage.set_worker_rank(worker_of_stage[number]);
    stage.set_first_layer(number);
    stage.set_last_layer(number);
    stage.set_forward_seconds(seconds.forward);
    stage.set_backward_input_seconds(seconds.backward_input);
    stage.set_backward_weight_seconds(seconds.backward_weight);
    if (recomputes.empty() || !recomputes[number]) continue;
    stage.set_recompute_seconds(seconds.recompute);
    stage.add_recomputed_layers(number);
  }
  return model;
}

absl::StatusOr<PlannedModel> ModelOfPrograms(std::span<const v1::StageProgram> programs) {
  PlannedModel model;
  STAGECOACH_ASSIGN_OR_RETURN(const Stages stages, StagesOf(programs));
  STAGECOACH_RETURN_IF_ERROR(AddStages(stages, model));
  model.graph.set_micro_batch_size(1);
  model.plan.set_schedule(programs[0].schedule());
  model.plan.set_num_micro_batches(programs[0].num_micro_batches());
  for (const v1::StageProgram& program : programs) {
    for (const v1::ChannelSpec& channel : program.channels()) {
      STAGECOACH_RETURN_IF_ERROR(AddChannel(channel, stages, model));
    }
    STAGECOACH_RETURN_IF_ERROR(AddTieWithinStage(program, stages, model));
  }
  STAGECOACH_RETURN_IF_ERROR(InferSkipConnections(programs, model));
  return model;
}

}  // namespace stagecoach
