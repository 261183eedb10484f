#include "worker/model/simulated_stage.h"

#include <algorithm>
#include <cstdint>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/frozen_layers.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

// How long a call sleeps at most before it looks whether its stream was cancelled.
constexpr absl::Duration kSleepSlice = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedStage>> SimulatedStage::Create(const SimulatedCosts& costs,
                                                                       std::unique_ptr<StageTimer> timer,
                                                                       const Device& device,
                                                                       const v1::ModelGraph& graph,
                                                                       const StageExtent& extent) {
  STAGECOACH_ASSIGN_OR_RETURN(const SlotRequirements slots, SlotRequirements::Of(device, graph, extent));
  const auto first = graph.layers().begin() + static_cast<int>(extent.first_layer);
  const auto last = graph.layers().begin() + static_cast<int>(extent.last_layer);
  const auto is_block = [](const v1::LayerSpec& layer) { return layer.kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK; };
  const auto num_blocks = static_cast<double>(std::count_if(first, last + 1, is_block));
  const auto lowest = std::max(extent.first_layer, LowestTrainedLayer(graph));
  const auto num_with_input =
      static_cast<double>(lowest > extent.last_layer
                              ? 0
                              : std::count_if(graph.layers().begin() + static_cast<int>(lowest), last + 1, is_block));
  const auto num_with_weight = static_cast<double>(
      std::count_if(first, last + 1, [&](const v1::LayerSpec& layer) { return is_block(layer) && !layer.frozen(); }));
  const SimulatedCosts stage_costs{.forward = num_blocks * costs.forward,
                                   .backward_input = num_with_input * costs.backward_input,
                                   .backward_weight = num_with_weight * costs.backward_weight};
  const bool has_head = last->kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD;
  const double recompute_seconds = static_cast<double>(extent.recomputed_layers.size()) * costs.forward;
  return absl::WrapUnique(new SimulatedStage(stage_costs, recompute_seconds, std::move(timer), slots, has_head));
}

absl::Status SimulatedStage::Forward(const MicroBatch& micro_batch, const Tensor& /*input*/, const Tensor& /*labels*/,
                                     const Tensor& output, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckForward(micro_batch, memory));
  if (has_head_ && (output.empty() || output.bytes() != sizeof(double))) {
    return absl::InvalidArgumentError(absl::StrCat("the stage's output is ",
                                                   output.empty() ? std::string("missing") : output.ShapeString(),
                                                   ", must be a loss, f64[1]"));
  }
  STAGECOACH_RETURN_IF_ERROR(Spend(costs_.forward, micro_batch));
  if (has_head_) *output.as<double>() = 0;
  return absl::OkStatus();
}

absl::Status SimulatedStage::Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckRecompute(micro_batch, memory));
  return Spend(recompute_seconds_, micro_batch);
}

absl::Status SimulatedStage::BackwardInput(const MicroBatch& micro_batch, const Tensor& /*output_gradient*/,
                                           const Tensor& /*input_gradient*/, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckBackwardInput(micro_batch, memory));
  return Spend(costs_.backward_input, micro_batch);
}

absl::Status SimulatedStage::BackwardWeight(const MicroBatch& micro_batch, const Tensor& /*labels*/,
                                            const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckBackwardWeight(micro_batch, memory));
  return Spend(costs_.backward_weight, micro_batch);
}

absl::Status SimulatedStage::Spend(double seconds, const MicroBatch& micro_batch) {
  if (micro_batch.samples == 0) return micro_batch.stream->CheckNotCancelled();
  absl::Duration now = timer_->Now();
  const double share = static_cast<double>(micro_batch.samples) / static_cast<double>(slots_.max_samples());
  const absl::Duration end = now + absl::Seconds(seconds * share);
  while (now < end) {
    STAGECOACH_RETURN_IF_ERROR(micro_batch.stream->CheckNotCancelled());
    timer_->SleepUntil(std::min(end, now + kSleepSlice));
    now = timer_->Now();
  }
  return micro_batch.stream->CheckNotCancelled();
}

}  // namespace stagecoach
