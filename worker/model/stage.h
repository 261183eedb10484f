#ifndef STAGECOACH_WORKER_MODEL_STAGE_H_
#define STAGECOACH_WORKER_MODEL_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/model/layer.h"

namespace stagecoach {

// Bytes of one slot of each lifetime, and of the scratch region. See common/layer_memory.h.
struct StageSlotBytes {
  uint64_t saved = 0;
  uint64_t shared = 0;
  uint64_t pending = 0;
  uint64_t scratch = 0;
  uint64_t remade = 0;      // of `pending`, the front that Forward needs of it; 0: none, nothing is recomputed
  uint64_t recomputed = 0;  // likewise 0 then
};

// What one skip edge carries of the micro-batch at hand: for each of these skip connections a tensor
// [samples, seq, hidden], one behind the other without a gap, so that of a ragged micro-batch they lie closer. On an
// edge of gradients each is the gradient of the connection's tensor.
struct SkipTensors {
  std::span<const uint32_t> connections;  // indices in the graph
  std::span<std::byte> data;              // as large as the tensors
};

// The slots that an instruction names.
struct StageMemoryView {
  std::span<std::byte> saved, shared, pending, scratch;
  std::span<std::byte> recomputed = {};
  // Of Forward and BackwardInput: receive and send buffers, one for each skip edge.
  std::span<const SkipTensors> skips_read = {}, skips_written = {};
};

// The layers of one stage, as the executor sees them: slots in, slots out. Forward of recomputed layers leaves their
// activations where Recompute does, for nobody. Two implementations: LayeredStage (layers on
// a device) and, in tests and later in simulation, stages whose calls take modelled time. The seam is here and not at
// Device: a simulated *tensor operation* would have to know its FLOPs, and thirty timers a layer are not the cost
// model's numbers. Executor's thread only. ABORTED when the micro-batch's stream was cancelled.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual const StageSlotBytes& slot_bytes() const = 0;
  // `input`: the receive buffer, or tokens on the first stage; its slot is free when this is complete. An input of
  // floating point may be changed: the sum with a skip connection's tensor is made in place where no copy is kept.
  // `output`: the send buffer; on the last stage f64 [1], the loss part.
  virtual absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                               const Tensor& output, const StageMemoryView& memory) = 0;
  // Of a stage with recomputed layers, whose activations no slot holds since Forward: makes them again, with the same
  // bits, from the inputs in `shared` into `recomputed` and the front of `pending`.
  virtual absl::Status Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) = 0;
  // `output_gradient`: likewise, and empty on the last stage. `input_gradient` is empty on the first.
  virtual absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient,
                                     const Tensor& input_gradient, const StageMemoryView& memory) = 0;
  virtual absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                                      const StageMemoryView& memory) = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_STAGE_H_
