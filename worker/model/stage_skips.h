#ifndef STAGECOACH_WORKER_MODEL_STAGE_SKIPS_H_
#define STAGECOACH_WORKER_MODEL_STAGE_SKIPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layer_memory.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/device/device.h"
#include "worker/model/stage.h"

namespace stagecoach {

// What skip connections do around the calls of a stage's layers: add a tensor to what the layer reads, and keep or send
// off a copy of what it has written, before anybody adds to that. A layer is named by its place in the stage. Allocates
// nothing after Of. Executor's thread only.
class StageSkips {
 public:
  // Of the layers of `graph`; `device` outlives this. Errors of MemoryOfStage; INVALID_ARGUMENT: a connection that
  // joins activations of different sizes.
  static absl::StatusOr<StageSkips> Of(Device& device, const v1::ModelGraph& graph, const StageExtent& extent);

  // Of one call. INVALID_ARGUMENT: the slots of skip edges are not those of the connections that lead into the stage or
  // out of it, or have another size.
  absl::Status CheckForward(const MicroBatch& micro_batch, const StageMemoryView& memory) const;
  absl::Status CheckBackwardInput(const MicroBatch& micro_batch, const StageMemoryView& memory) const;

  // In Forward, around each layer. `input` becomes the sum that the layer reads.
  absl::Status EnqueueBeforeForward(size_t layer, const MicroBatch& micro_batch, const Tensor& input,
                                    const StageMemoryView& memory) const;
  absl::Status EnqueueAfterForward(size_t layer, const MicroBatch& micro_batch, const Tensor& output,
                                   const StageMemoryView& memory) const;
  // In BackwardInput, around each layer that has one. `output_gradient` becomes the sum that the layer reads.
  absl::Status EnqueueBeforeBackwardInput(size_t layer, const MicroBatch& micro_batch, const Tensor& output_gradient,
                                          const StageMemoryView& memory) const;
  absl::Status EnqueueAfterBackwardInput(size_t layer, const MicroBatch& micro_batch, const Tensor& input_gradient,
                                         const StageMemoryView& memory) const;

 private:
  // One that starts or ends in the stage.
  struct Connection {
    uint32_t index = 0;  // in the graph
    uint32_t from_layer = 0, to_layer = 0;
    std::optional<size_t> from, to;  // of the stage's layers; nullopt: it starts below, or ends above
    uint64_t bytes_per_sample = 0;
    bool has_gradient = false;
    uint64_t held = 0;  // in `scratch`, when both ends are here

    bool Enters() const { return !from.has_value(); }
    bool Leaves() const { return !to.has_value(); }
    bool GradientEnters() const { return Leaves() && has_gradient; }
    bool GradientLeaves() const { return Enters() && has_gradient; }
  };
  // One connection's end at a layer.
  struct Move {
    const Connection& connection;
    const Tensor& tensor;  // what the layer reads or has written
    std::span<const SkipTensors> edges;
    const StageMemoryView& memory;
  };

  StageSkips(Device& device, size_t num_layers) : device_(device), starts_(num_layers), ends_(num_layers) {}
  absl::Status Add(const v1::ModelGraph& graph, const StageExtent& extent, uint32_t index, uint64_t& held_end);
  absl::Status Check(std::span<const SkipTensors> edges, bool (Connection::*passes)() const, int64_t samples) const;
  const Connection* At(const std::vector<std::optional<size_t>>& layers, size_t layer) const;
  absl::StatusOr<Tensor> Counterpart(const Move& move) const;
  absl::Status EnqueueAdd(const MicroBatch& micro_batch, const Move& move) const;
  absl::Status EnqueueCopy(const MicroBatch& micro_batch, const Move& move) const;

  Device& device_;
  std::vector<Connection> connections_;
  std::vector<std::optional<size_t>> starts_, ends_;  // by layer: which of the connections
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_STAGE_SKIPS_H_
