#ifndef STAGECOACH_WORKER_MODEL_LAYER_H_
#define STAGECOACH_WORKER_MODEL_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/ids.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/device/device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// What one call is about.
struct MicroBatch {
  Step step;
  MicroBatchIndex index;
  uint64_t first_sample = 0;  // global sample index of its first sample
  int64_t samples = 0;        // may be fewer than planned, may be 0
  bool training = true;       // false: no dropout, and no backward follows
  double loss_weight = 0;     // its tokens / the step's tokens
  double loss_scale = 1;
  Stream* stream = nullptr;
};

// The regions of one (layer, micro-batch), of the sizes that common/layer_memory.h gives. `saved` lives from Forward to
// BackwardInput, `shared` from Forward to BackwardWeight, `pending` from BackwardInput to BackwardWeight, `scratch`
// inside a call. In an evaluation `saved` and `shared` are memory that the next layer may overwrite.
struct LayerMemory {
  std::span<std::byte> saved;
  std::span<std::byte> shared;
  std::span<std::byte> pending;
  std::span<std::byte> scratch;
};

struct Parameter {
  const v1::ParameterSpec* spec = nullptr;
  Tensor value;
  Tensor gradient;  // accumulator of *this use*; a tied use has its own, TIE_REDUCE adds them
};

// One schedulable layer on one device: stateless between calls but for its parameters, so that any number of
// micro-batches may be in flight. Called by the executor's thread only. Gradients are added to the accumulators in the
// order of calls, which the verifier has shown to be micro-batch order. `input` and `output_gradient` stay as they are
// until BackwardWeight has run.
class Layer {
 public:
  virtual ~Layer() = default;
  // `input`: activation [samples, seq, hidden], or tokens i32 [samples, seq] for the first layer. `output`: activation;
  // for the head, f64 [1]: the micro-batch's loss weight x mean loss over its tokens, 0 when it has none. `labels` is
  // for the head alone.
  virtual absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                               const Tensor& output, const LayerMemory& memory) = 0;
  // Writes `memory.saved` and `memory.shared` again, every byte as Forward did, and no output. Blocks alone can: what
  // others save is little, or needs labels. UNIMPLEMENTED elsewhere, which no stage asks for.
  virtual absl::Status Recompute(const MicroBatch& /*micro_batch*/, const Tensor& /*input*/,
                                 const LayerMemory& /*memory*/) {
    return absl::UnimplementedError("this kind of layer is not recomputed");
  }
  // Writes `input_gradient` unless it is empty (first layer) and fills `memory.pending`. `output_gradient` is empty for
  // the head.
  virtual absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& input, const Tensor& output_gradient,
                                     const Tensor& input_gradient, const LayerMemory& memory) = 0;
  virtual absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                                      const Tensor& output_gradient, const LayerMemory& memory) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYER_H_
