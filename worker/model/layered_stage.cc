#include "worker/model/layered_stage.h"

#include <algorithm>
#include <cstddef>
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

}  // namespace

absl::StatusOr<std::unique_ptr<LayeredStage>> LayeredStage::Create(Device& device, const v1::JobSpec& spec,
                                                                   const v1::ModelGraph& graph,
                                                                   const StageExtent& extent, const StageState& state) {
  STAGECOACH_ASSIGN_OR_RETURN(const SlotRequirements slots, SlotRequirements::Of(device, graph, extent));
  auto stage = absl::WrapUnique(new LayeredStage(device, graph, slots));
  SlotEnds ends{.pending = slots.bytes().remade};
  for (uint32_t i = extent.first_layer; i <= extent.last_layer; ++i) {
    const v1::LayerSpec& layer_spec = graph.layers(static_cast<int>(i));
    const LayerContext context = {.device = device,
                                  .index = LayerIndex(i),
                                  .parameters = state.parameters(LayerIndex(i)),
                                  .seed = spec.training().seed()};
    STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, BuildLayer(layer_spec, context));
    STAGECOACH_RETURN_IF_ERROR(stage->Place(layer_spec, extent.Recomputes(i), std::move(layer), ends));
  }
  return stage;
}

LayeredStage::LayeredStage(Device& device, const v1::ModelGraph& graph, const SlotRequirements& slots)
    : device_(device),
      slots_(slots),
      seq_len_(static_cast<int64_t>(graph.seq_len())),
      element_bytes_(BytesOf(device.capabilities().compute_dtype)) {}

absl::Status LayeredStage::Place(const v1::LayerSpec& spec, bool is_recomputed, std::unique_ptr<Layer> layer,
                                 SlotEnds& ends) {
  PlacedLayer placed;
  placed.name = spec.name();
  placed.layer = std::move(layer);
  STAGECOACH_ASSIGN_OR_RETURN(placed.bytes, MemoryOfLayer(spec, static_cast<uint64_t>(slots_.max_samples()),
                                                          static_cast<uint64_t>(seq_len_), element_bytes_));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t hidden, ReadSize(spec, "hidden_size"));
  placed.input_columns = spec.kind() == v1::LAYER_KIND_TOKEN_EMBEDDING ? 0 : hidden;
  placed.output_columns = spec.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD ? 0 : hidden;
  if (!layers_.empty()) {
    const PlacedLayer& before = layers_.back();
    if (before.output_columns == 0 || before.output_columns != placed.input_columns) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", spec.name(), " does not take what layer ", before.name, " makes"));
    }
  }
  placed.is_recomputed = is_recomputed;
  placed.input = Take(AlignUp(placed.bytes.input), ends.shared);
  placed.saved = Take(placed.bytes.saved, is_recomputed ? ends.recomputed : ends.saved);
  placed.shared = Take(placed.bytes.shared, is_recomputed ? ends.remade : ends.shared);
  placed.output_gradient = Take(AlignUp(placed.bytes.output), ends.pending);
  placed.pending = Take(placed.bytes.pending, ends.pending);
  layers_.push_back(std::move(placed));
  return absl::OkStatus();
}

LayerMemory LayeredStage::MemoryOf(const PlacedLayer& placed, const StageMemoryView& memory) const {
  const std::span<std::byte> saved = placed.is_recomputed ? memory.recomputed : memory.saved;
  const std::span<std::byte> shared = placed.is_recomputed ? memory.pending : memory.shared;
  return {.saved = Piece(saved, placed.saved, placed.bytes.saved),
          .shared = Piece(shared, placed.shared, placed.bytes.shared),
          .pending = Piece(memory.pending, placed.pending, placed.bytes.pending),
          .scratch = memory.scratch};
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
  return InputAt(memory.shared.data() + placed.input, placed, micro_batch);
}

Tensor LayeredStage::OutputGradientIn(const StageMemoryView& memory, const PlacedLayer& placed,
                                      const MicroBatch& micro_batch) const {
  if (placed.output_columns == 0) return {};
  return OutputAt(memory.pending.data() + placed.output_gradient, placed, micro_batch);
}

absl::Status LayeredStage::EnqueueCopyIn(Stream& stream, const char* what, const Tensor& from, const Tensor& to) const {
  if (to.bytes() == 0) return absl::OkStatus();
  STAGECOACH_RETURN_IF_ERROR(CheckBytes(what, from, to));
  return device_.EnqueueCopy(stream, to.data, from.data, to.bytes());
}

absl::Status LayeredStage::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                                   const Tensor& output, const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckForward(micro_batch, memory));
  const Tensor stage_output = OutputAt(output.as<std::byte>(), layers_.back(), micro_batch);
  if (stage_output.bytes() != 0) STAGECOACH_RETURN_IF_ERROR(CheckBytes("output", output, stage_output));
  STAGECOACH_RETURN_IF_ERROR(
      EnqueueCopyIn(*micro_batch.stream, "input", input, InputIn(memory, layers_.front(), micro_batch)));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const PlacedLayer& placed = layers_[i];
    const Tensor layer_output = i + 1 < layers_.size() ? InputIn(memory, layers_[i + 1], micro_batch) : stage_output;
    const absl::Status status = placed.layer->Forward(micro_batch, InputIn(memory, placed, micro_batch), labels,
                                                      layer_output, MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
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
  if (const Tensor copy = OutputGradientIn(memory, layers_.back(), micro_batch); !copy.empty()) {
    STAGECOACH_RETURN_IF_ERROR(EnqueueCopyIn(*micro_batch.stream, "output gradient", output_gradient, copy));
  }
  Tensor stage_input_gradient;
  if (!input_gradient.empty()) {
    stage_input_gradient = InputAt(input_gradient.as<std::byte>(), layers_.front(), micro_batch);
    STAGECOACH_RETURN_IF_ERROR(CheckBytes("input gradient", input_gradient, stage_input_gradient));
  }
  for (size_t i = layers_.size(); i-- > 0;) {
    const PlacedLayer& placed = layers_[i];
    const Tensor layer_input_gradient =
        i > 0 ? OutputGradientIn(memory, layers_[i - 1], micro_batch) : stage_input_gradient;
    const absl::Status status = placed.layer->BackwardInput(micro_batch, InputIn(memory, placed, micro_batch),
                                                            OutputGradientIn(memory, placed, micro_batch),
                                                            layer_input_gradient, MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
  }
  return absl::OkStatus();
}

absl::Status LayeredStage::BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                                          const StageMemoryView& memory) {
  STAGECOACH_RETURN_IF_ERROR(slots_.CheckBackwardWeight(micro_batch, memory));
  for (size_t i = layers_.size(); i-- > 0;) {
    const PlacedLayer& placed = layers_[i];
    const absl::Status status =
        placed.layer->BackwardWeight(micro_batch, InputIn(memory, placed, micro_batch), labels,
                                     OutputGradientIn(memory, placed, micro_batch), MemoryOf(placed, memory));
    if (!status.ok()) return WithContext(status, placed.name);
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
