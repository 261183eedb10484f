#include "worker/model/stage_skips.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/layer_slots.h"
#include "common/memory_layout.h"
#include "common/skip_connections.h"
#include "common/status_macros.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {
namespace {

// Where an edge has the tensor of a connection; null: it does not carry that one.
std::byte* FindTensor(const SkipTensors& edge, uint32_t connection, uint64_t tensor_bytes) {
  const auto found = std::find(edge.connections.begin(), edge.connections.end(), connection);
  if (edge.data.empty() || found == edge.connections.end()) return nullptr;
  return edge.data.data() + static_cast<uint64_t>(found - edge.connections.begin()) * tensor_bytes;
}

std::optional<size_t> PlaceOf(uint32_t layer, const StageExtent& extent) {
  if (layer < extent.first_layer || layer > extent.last_layer) return std::nullopt;
  return layer - extent.first_layer;
}

std::string ConnectionText(uint32_t from_layer, uint32_t to_layer) {
  return absl::StrCat("the skip connection from layer ", from_layer, " to layer ", to_layer);
}

}  // namespace

absl::StatusOr<StageSkips> StageSkips::Of(Device& device, const v1::ModelGraph& graph, const StageExtent& extent) {
  const uint64_t element_bytes = BytesOf(device.capabilities().compute_dtype);
  STAGECOACH_ASSIGN_OR_RETURN(const StageMemoryBytes bytes, MemoryOfStage(graph, extent, element_bytes));
  StageSkips skips(device, extent.last_layer - extent.first_layer + 1);
  uint64_t held_end = bytes.scratch - bytes.held;
  for (int i = 0; i < graph.skip_connections_size(); ++i) {
    STAGECOACH_RETURN_IF_ERROR(skips.Add(graph, extent, static_cast<uint32_t>(i), held_end));
  }
  return skips;
}

absl::Status StageSkips::Add(const v1::ModelGraph& graph, const StageExtent& extent, uint32_t index,
                             uint64_t& held_end) {
  const v1::SkipConnection& spec = graph.skip_connections(static_cast<int>(index));
  Connection connection{.index = index,
                        .from_layer = spec.from_layer(),
                        .to_layer = spec.to_layer(),
                        .from = PlaceOf(spec.from_layer(), extent),
                        .to = PlaceOf(spec.to_layer(), extent),
                        .has_gradient = HasGradient(graph, spec)};
  if (!connection.from.has_value() && !connection.to.has_value()) return absl::OkStatus();
  const uint64_t element_bytes = BytesOf(device_.capabilities().compute_dtype);
  STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots from, SlotsOfLayer(graph, connection.from_layer, element_bytes));
  STAGECOACH_ASSIGN_OR_RETURN(const LayerSlots to, SlotsOfLayer(graph, connection.to_layer, element_bytes));
  const uint64_t bytes = from.regions.output;
  if (bytes != to.regions.input) {
    return absl::InvalidArgumentError(absl::StrCat(ConnectionText(connection.from_layer, connection.to_layer), " adds ",
                                                   bytes, " bytes to an input of ", to.regions.input));
  }
  connection.bytes_per_sample = bytes / std::max<uint64_t>(graph.micro_batch_size(), 1);
  if (connection.from.has_value() && connection.to.has_value()) {
    connection.held = std::exchange(held_end, held_end + AlignUp(bytes));
  }
  if (connection.from.has_value()) starts_[*connection.from] = connections_.size();
  if (connection.to.has_value()) ends_[*connection.to] = connections_.size();
  connections_.push_back(connection);
  return absl::OkStatus();
}

absl::Status StageSkips::CheckForward(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(Check(memory.skips_read, &Connection::Enters, micro_batch.samples));
  return Check(memory.skips_written, &Connection::Leaves, micro_batch.samples);
}

absl::Status StageSkips::CheckBackwardInput(const MicroBatch& micro_batch, const StageMemoryView& memory) const {
  STAGECOACH_RETURN_IF_ERROR(Check(memory.skips_read, &Connection::GradientEnters, micro_batch.samples));
  return Check(memory.skips_written, &Connection::GradientLeaves, micro_batch.samples);
}

// All that pass are there, once each as their numbers are equal, and every edge is as large as its tensors.
absl::Status StageSkips::Check(std::span<const SkipTensors> edges, bool (Connection::*passes)() const,
                               int64_t samples) const {
  if (samples == 0) return absl::OkStatus();  // nothing is read or written
  size_t num_given = 0, num_passing = 0;
  for (const SkipTensors& edge : edges) num_given += edge.connections.size();
  for (const Connection& connection : connections_) {
    if (!(connection.*passes)()) continue;
    ++num_passing;
    const uint64_t tensor_bytes = connection.bytes_per_sample * static_cast<uint64_t>(samples);
    const auto edge = std::find_if(edges.begin(), edges.end(), [&](const SkipTensors& each) {
      return FindTensor(each, connection.index, tensor_bytes) != nullptr;
    });
    if (edge == edges.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no slot has the tensor of ", ConnectionText(connection.from_layer, connection.to_layer)));
    }
    if (edge->data.size() != edge->connections.size() * tensor_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the slot with the tensor of ", ConnectionText(connection.from_layer, connection.to_layer), " has ",
          edge->data.size(), " bytes, its ", edge->connections.size(), " tensors of ", tensor_bytes));
    }
  }
  if (num_given == num_passing) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the slots have tensors of ", num_given,
                                                 " skip connections, of which ", num_passing,
                                                 " lead into or out of the stage there"));
}

const StageSkips::Connection* StageSkips::At(const std::vector<std::optional<size_t>>& layers, size_t layer) const {
  return layers[layer].has_value() ? &connections_[*layers[layer]] : nullptr;
}

absl::Status StageSkips::EnqueueBeforeForward(size_t layer, const MicroBatch& micro_batch, const Tensor& input,
                                              const StageMemoryView& memory) const {
  const Connection* connection = At(ends_, layer);
  if (connection == nullptr) return absl::OkStatus();
  return EnqueueAdd(micro_batch, {*connection, input, memory.skips_read, memory});
}

absl::Status StageSkips::EnqueueAfterForward(size_t layer, const MicroBatch& micro_batch, const Tensor& output,
                                             const StageMemoryView& memory) const {
  const Connection* connection = At(starts_, layer);
  if (connection == nullptr) return absl::OkStatus();
  return EnqueueCopy(micro_batch, {*connection, output, memory.skips_written, memory});
}

absl::Status StageSkips::EnqueueBeforeBackwardInput(size_t layer, const MicroBatch& micro_batch,
                                                    const Tensor& output_gradient,
                                                    const StageMemoryView& memory) const {
  const Connection* connection = At(starts_, layer);
  if (connection == nullptr || !connection->has_gradient) return absl::OkStatus();
  return EnqueueAdd(micro_batch, {*connection, output_gradient, memory.skips_read, memory});
}

absl::Status StageSkips::EnqueueAfterBackwardInput(size_t layer, const MicroBatch& micro_batch,
                                                   const Tensor& input_gradient, const StageMemoryView& memory) const {
  const Connection* connection = At(ends_, layer);
  if (connection == nullptr || !connection->has_gradient) return absl::OkStatus();
  return EnqueueCopy(micro_batch, {*connection, input_gradient, memory.skips_written, memory});
}

// The connection's tensor, of the shape of the layer's.
absl::StatusOr<Tensor> StageSkips::Counterpart(const Move& move) const {
  const Connection& connection = move.connection;
  if (move.tensor.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no activation or gradient for ",
                                                   ConnectionText(connection.from_layer, connection.to_layer)));
  }
  Tensor tensor = move.tensor;
  if (connection.from.has_value() && connection.to.has_value()) {
    tensor.data = move.memory.scratch.data() + connection.held;
    return tensor;
  }
  for (const SkipTensors& edge : move.edges) {
    tensor.data = FindTensor(edge, connection.index, tensor.bytes());
    if (tensor.data != nullptr) return tensor;
  }
  return absl::InternalError(
      absl::StrCat("unchecked slots of ", ConnectionText(connection.from_layer, connection.to_layer)));
}

absl::Status StageSkips::EnqueueAdd(const MicroBatch& micro_batch, const Move& move) const {
  if (micro_batch.samples == 0) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(const Tensor term, Counterpart(move));
  return device_.operations().elementwise().EnqueueAdd(*micro_batch.stream, move.tensor, term, move.tensor);
}

absl::Status StageSkips::EnqueueCopy(const MicroBatch& micro_batch, const Move& move) const {
  if (micro_batch.samples == 0) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(const Tensor copy, Counterpart(move));
  return device_.EnqueueCopy(*micro_batch.stream, copy.data, move.tensor.data, copy.bytes());
}

}  // namespace stagecoach
