#ifndef STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_
#define STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/layer_memory.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/model/slot_requirements.h"
#include "worker/model/stage.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// A stage made of layers. Lays its layers' regions out inside the slots it is handed, as MemoryOfStage in
// common/layer_memory.h says: for full micro-batches; ragged ones use a front part of each region. A layer writes its
// output where the next has its input, and the next writes its input gradient where the first has its output gradient,
// so that nothing is copied but the stage's own input and output gradient. Allocates nothing after Create. Executor's
// thread only.
class LayeredStage : public Stage {
 public:
  // Layers of `graph`; `state` holds (at least) these and outlives the stage, as does `device`. INVALID_ARGUMENT: a
  // layer that does not fit its parameters or this worker, or cannot be recomputed.
  static absl::StatusOr<std::unique_ptr<LayeredStage>> Create(Device& device, const v1::JobSpec& spec,
                                                              const v1::ModelGraph& graph, const StageExtent& extent,
                                                              const StageState& state);

  // INVALID_ARGUMENT (all four): more samples than planned, a slot or tensor that is too small.
  const StageSlotBytes& slot_bytes() const override { return slots_.bytes(); }
  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const StageMemoryView& memory) override;
  absl::Status Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient, const Tensor& input_gradient,
                             const StageMemoryView& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                              const StageMemoryView& memory) override;

 private:
  // Where one layer's regions start in the slots.
  struct PlacedLayer {
    std::string name;
    std::unique_ptr<Layer> layer;
    LayerMemoryBytes bytes;
    int64_t input_columns = 0;   // 0: tokens
    int64_t output_columns = 0;  // 0: the loss
    uint64_t input = 0, output_gradient = 0, pending = 0;
    bool is_recomputed = false;
    uint64_t saved = 0;   // in `recomputed` if it is, or else in `saved`
    uint64_t shared = 0;  // in `pending` if it is, or else in `shared`
  };
  // The ends of what has been placed in each slot.
  struct SlotEnds {
    uint64_t saved = 0, shared = 0, remade = 0, pending = 0, recomputed = 0;
  };

  LayeredStage(Device& device, const v1::ModelGraph& graph, const SlotRequirements& slots);
  absl::Status Place(const v1::LayerSpec& spec, bool is_recomputed, std::unique_ptr<Layer> layer, SlotEnds& ends);
  LayerMemory MemoryOf(const PlacedLayer& placed, const StageMemoryView& memory) const;

  // The activation [samples, seq, columns] at `data`; tokens for an embedding's input, the loss for a head's output.
  Tensor InputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  Tensor OutputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  Tensor InputIn(const StageMemoryView& memory, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  // Empty for the head.
  Tensor OutputGradientIn(const StageMemoryView& memory, const PlacedLayer& placed,
                          const MicroBatch& micro_batch) const;
  // Copies what comes from outside into its place in a slot.
  absl::Status EnqueueCopyIn(Stream& stream, const char* what, const Tensor& from, const Tensor& to) const;

  Device& device_;
  const SlotRequirements slots_;
  const int64_t seq_len_;
  const uint64_t element_bytes_;
  std::vector<PlacedLayer> layers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_
