#include "worker/model/layered_stage.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "worker/model/layer_factory.h"
#include "worker/model/layer_spec_reader.h"

namespace stagecoach {
namespace {

// Empty when the slot is not there: a call does not touch what its instruction does not name.
std::span<std::byte> Piece(std::span<std::byte> slot, uint64_t offset, uint64_t bytes) {
  return offset + bytes <= slot.size() ? slot.subspan(offset, bytes) : std::span<std::byte>();
}

// A tensor from outside must hold what the stage puts there.
absl::Status CheckBytes(const char* what, const Tensor& actual, const Tensor& expected) {
  if (!actual.empty() && actual.bytes() == expected.bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the stage's ", what, " is ",
                                                 actual.empty() ? std::string("missing") : actual.ShapeString(),
                                                 ", must be ", expected.ShapeString()));
}

// Gives the next `bytes` behind `end`.
uint64_t Take(uint64_t bytes, uint64_t& end) { return std::exchange(end, end + bytes); }

// What W adds to is there.
absl::Status CheckAccumulators(const v1::ModelGraph& graph, uint32_t layer, std::span<const Parameter> parameters) {
  const bool lacks_some = std::any_of(parameters.begin(), parameters.end(),
                                      [](const Parameter& parameter) { return parameter.gradient.empty(); });
  if (!lacks_some || !KeepsOutputGradient(RoleOf(graph, layer))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("layer ", graph.layers(static_cast<int>(layer)).name(),
                                                 " is trained, and its parameters have no gradients"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayeredStage>> LayeredStage::Create(Device& device, const v1::JobSpec& spec,
                                                                   const v1::ModelGraph& graph,
                                                                   const StageExtent& extent, const StageState& state) {
  STAGECOACH_ASSIGN_OR_RETURN(const SlotRequirements slots, SlotRequirements::Of(device, graph, extent));
  STAGECOACH_ASSIGN_OR_RETURN(StageSkips skips, StageSkips::Of(device, graph, extent));
  auto stage = absl::WrapUnique(new LayeredStage(device, graph, slots, std::move(skips)));
  SlotEnds ends{.pending = slots.bytes().remade};
  for (uint32_t i = extent.first_layer; i <= extent.last_layer; ++i) {
    const v1::LayerSpec& layer_spec = graph.layers(static_cast<int>(i));
    const LayerContext context = {.device = device,
                                  .index = LayerIndex(i),
                                  .parameters = state.parameters(LayerIndex(i)),
                                  .seed = spec.training().seed()};
    STAGECOACH_RETURN_IF_ERROR(CheckAccumulators(graph, i, context.parameters));
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, BuildLayer(layer_spec, context));
    STAGECOACH_RETURN_IF_ERROR(stage->Place(graph, i, extent.Recomputes(i), std::move(layer), ends));
  }
  return stage;
}

LayeredStage::LayeredStage(Device& device, const v1::ModelGraph& graph, const SlotRequirements& slots, StageSkips skips)
    : device_(device),
      slots_(slots),
      skips_(std::move(skips)),
      seq_len_(static_cast<int64_t>(graph.seq_len())),
      element_bytes_(BytesOf(device.capabilities().compute_dtype)) {}

absl::Status LayeredStage::Place(const v1::ModelGraph& graph, uint32_t index, bool is_recomputed,
                                 std::unique_ptr<Layer> layer, SlotEnds& ends) {
  const v1::LayerSpec& spec = graph.layers(static_cast<int>(index));
  PlacedLayer placed;
  placed.name = spec.name();
  placed.layer = std::move(layer);
  STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots slots, SlotsOfLayer(graph, index, element_bytes_));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t hidden, ReadSize(spec, "hidden_size"));
  placed.input_columns = spec.kind() == v1::LAYER_KIND_TOKEN_EMBEDDING ? 0 : hidden;
  placed.output_columns = spec.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD ? 0 : hidden;
  STAGECOACH_RETURN_IF_ERROR(CheckFollows(placed));
  placed.is_recomputed = is_recomputed;
  PlaceRegions(slots, ends, placed);
  // Neighbours take turns in the two buffers.
  const uint64_t buffer = layers_.size() % 2 == 0 ? 0 : slots.transit;
  if (!KeepsInput(placed.role)) placed.input = buffer;
  if (!KeepsOutputGradient(placed.role)) placed.output_gradient = buffer;
  layers_.push_back(std::move(placed));
  return absl::OkStatus();
}

absl::Status LayeredStage::CheckFollows(const PlacedLayer& placed) const {
  if (layers_.empty()) return absl::OkStatus();
  const PlacedLayer& before = layers_.back();
  if (before.output_columns != 0 && before.output_columns == placed.input_columns) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", placed.name, " does not take what layer ", before.name, " makes"));
}

// As common/layer_slots.h draws them.
void LayeredStage::PlaceRegions(const LayerSlots& slots, SlotEnds& ends, PlacedLayer& placed) {
  const LayerMemoryBytes& bytes = slots.regions;
  placed.role = slots.role;
  placed.bytes = bytes;
  placed.input = Take(slots.input, ends.shared);
  placed.scratch = 2 * slots.transit;
  const uint64_t behind_scratch = placed.scratch + bytes.scratch;
  if (placed.role == LayerRole::kForwardOnly) {
    placed.saved = behind_scratch;
    placed.shared = behind_scratch + bytes.saved;
    return;
  }
  uint64_t& saved_end = placed.is_recomputed ? ends.recomputed : ends.saved;
  placed.saved = Take(bytes.saved, saved_end);
  if (placed.role == LayerRole::kPassing) {
    placed.shared = Take(bytes.shared, saved_end);
    placed.pending = behind_scratch;
    return;
  }
  placed.shared = Take(bytes.shared, placed.is_recomputed ? ends.remade : ends.shared);
  placed.output_gradient = Take(slots.output_gradient, ends.pending);
  placed.pending = Take(bytes.pending, ends.pending);
}

LayerMemory LayeredStage::MemoryOf(const PlacedLayer& placed, const StageMemoryView& memory) const {
  const LayerMemoryBytes& bytes = placed.bytes;
  std::span<std::byte> saved = placed.is_recomputed ? memory.recomputed : memory.saved;
  std::span<std::byte> shared = placed.is_recomputed ? memory.pending : memory.shared;
  std::span<std::byte> pending = memory.pending;
  if (placed.role == LayerRole::kPassing) {
    shared = saved;
    pending = memory.scratch;
  } else if (placed.role == LayerRole::kForwardOnly) {
    saved = shared = memory.scratch;
  }
  return {.saved = Piece(saved, placed.saved, bytes.saved),
          .shared = Piece(shared, placed.shared, bytes.shared),
          .pending = Piece(pending, placed.pending, bytes.pending),
          .scratch = Piece(memory.scratch, placed.scratch, bytes.scratch)};
}

Tensor LayeredStage::InputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const {
  if (placed.input_columns == 0) return Tensor::Of(data, v1::DTYPE_I32, {micro_batch.samples, seq_len_});
  return Tensor::Of(data, device_.capabilities().compute_dtype, {micro_batch.samples, seq_len_, placed.input_columns});
}

Tensor LayeredStage::OutputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const {
  if (placed.output_columns == 0) return Tensor::Of(data, v1::DTYPE_F64, {1});
  return Tensor::Of(data, device_.capabilities().compute_dtype, {micro_batch.samples, seq_len_, placed.output_columns});
}

Tensor LayeredStage::InputIn(const StageMemoryView& memory, const PlacedLayer& placed,
                             const MicroBatch& micro_batch) const {
  const std::span<std::byte> slot = KeepsInput(placed.role) ? memory.shared : memory.scratch;
  return InputAt(slot.data() + placed.input, placed, micro_batch);
}

Tensor LayeredStage::OutputGradientIn(const StageMemoryView& memory, const PlacedLayer& placed,
                                      const MicroBatch& micro_batch) const {
  if (placed.output_columns == 0) return {};
  const std::span<std::byte> slot = KeepsOutputGradient(placed.role) ? memory.pending : memory.scratch;
  return OutputAt(slot.data() + placed.output_gradient, placed, micro_batch);
}

absl::StatusOr<Tensor> LayeredStage::TakeInput(const MicroBatch& micro_batch, const Tensor& input,
                                               const StageMemoryView& memory) const {
  const PlacedLayer& first = layers_.front();
  if (KeepsInput(first.role)) {
    const Tensor copy = InputIn(memory, first, micro_batch);
    STAGECOACH_RETURN_IF_ERROR(EnqueueCopyIn(*micro_batch.stream, "input", input, copy));
    return copy;
  }
  const Tensor outside = InputAt(input.as<std::byte>(), first, micro_batch);
  if (outside.bytes() != 0) STAGECOACH_RETURN_IF_ERROR(CheckBytes("input", input, outside));
  return outside;
}

absl::StatusOr<Tensor> LayeredStage::TakeOutputGradient(const MicroBatch& micro_batch, const Tensor& output_gradient,
                                                        const StageMemoryView& memory) const {
  const PlacedLayer& last = layers_.back();
  if (last.output_columns == 0) return Tensor();
  if (KeepsOutputGradient(last.role)) {
    const Tensor copy = OutputGradientIn(memory, last, micro_batch);
    STAGECOACH_RETURN_IF_ERROR(EnqueueCopyIn(*micro_batch.stream, "output gradient", output_gradient, copy));
    return copy;
  }
  const Tensor outside = OutputAt(output_gradient.as<std::byte>(), last, micro_batch);
  if (outside.bytes() != 0) STAGECOACH_RETURN_IF_ERROR(CheckBytes("output gradient", output_gradient, outside));
  return outside;
}

Tensor LayeredStage::InputGradientOf(size_t i, const Tensor& stage_input_gradient, const StageMemoryView& memory,
                                     const MicroBatch& micro_batch) const {
  if (i == 0) return stage_input_gradient;
  if (layers_[i].role == LayerRole::kLowestTrained) return {};
  return OutputGradientIn(memory, layers_[i - 1], micro_batch);
}

absl::Status LayeredStage::EnqueueCopyIn(Stream& stream, const char* what, const Tensor& from, const Tensor& to) const {
  if (to.bytes() == 0) return absl::OkStatus();
  STAGECOACH_RETURN_IF_ERROR(CheckBytes(what, from, to));
  return device_.EnqueueCopy(stream, to.data, from.data, to.bytes());
}

absl::Status LayeredStage::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                                   const Tensor& output, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckForward(micro_batch, memory));
  STAGECOACH_RETURN_IF_ERROR(skips_.CheckForward(micro_batch, memory));
  const Tensor stage_output = OutputAt(output.as<std::byte>(), layers_.back(), micro_batch);
  if (stage_output.bytes() != 0) STAGECOACH_RETURN_IF_ERROR(CheckBytes("output", output, stage_output));
  STAGECOACH_ASSIGN_OR_RETURN(Tensor layer_input, TakeInput(micro_batch, input, memory));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const PlacedLayer& placed = layers_[i];
    const Tensor layer_output = i + 1 < layers_.size() ? InputIn(memory, layers_[i + 1], micro_batch) : stage_output;
    STAGECOACH_RETURN_IF_ERROR(skips_.EnqueueBeforeForward(i, micro_batch, layer_input, memory));
    const absl::Status status =
        placed.layer->Forward(micro_batch, layer_input, labels, layer_output, MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
    STAGECOACH_RETURN_IF_ERROR(skips_.EnqueueAfterForward(i, micro_batch, layer_output, memory));
    layer_input = layer_output;
  }
  return absl::OkStatus();
}

absl::Status LayeredStage::Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckRecompute(micro_batch, memory));
  for (const PlacedLayer& placed : layers_) {
    if (!placed.is_recomputed) continue;
    const absl::Status status =
        placed.layer->Recompute(micro_batch, InputIn(memory, placed, micro_batch), MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
  }
  return absl::OkStatus();
}

absl::Status LayeredStage::BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient,
                                         const Tensor& input_gradient, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckBackwardInput(micro_batch, memory));
  STAGECOACH_RETURN_IF_ERROR(skips_.CheckBackwardInput(micro_batch, memory));
  STAGECOACH_ASSIGN_OR_RETURN(Tensor layer_output_gradient, TakeOutputGradient(micro_batch, output_gradient, memory));
  Tensor stage_input_gradient;
  if (!input_gradient.empty()) {
    stage_input_gradient = InputAt(input_gradient.as<std::byte>(), layers_.front(), micro_batch);
    STAGECOACH_RETURN_IF_ERROR(CheckBytes("input gradient", input_gradient, stage_input_gradient));
  }
  for (size_t i = layers_.size(); i-- > 0 && layers_[i].role != LayerRole::kForwardOnly;) {
    const PlacedLayer& placed = layers_[i];
    const Tensor layer_input_gradient = InputGradientOf(i, stage_input_gradient, memory, micro_batch);
    STAGECOACH_RETURN_IF_ERROR(skips_.EnqueueBeforeBackwardInput(i, micro_batch, layer_output_gradient, memory));
    const absl::Status status =
        placed.layer->BackwardInput(micro_batch, InputIn(memory, placed, micro_batch), layer_output_gradient,
                                    layer_input_gradient, MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
    STAGECOACH_RETURN_IF_ERROR(skips_.EnqueueAfterBackwardInput(i, micro_batch, layer_input_gradient, memory));
    layer_output_gradient = layer_input_gradient;
  }
  return absl::OkStatus();
}

absl::Status LayeredStage::BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                                          const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckBackwardWeight(micro_batch, memory));
  for (size_t i = layers_.size(); i-- > 0;) {
    const PlacedLayer& placed = layers_[i];
    if (!KeepsOutputGradient(placed.role)) continue;
    const absl::Status status =
        placed.layer->BackwardWeight(micro_batch, InputIn(memory, placed, micro_batch), labels,
                                     OutputGradientIn(memory, placed, micro_batch), MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
