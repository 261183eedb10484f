#ifndef STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_
#define STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/frozen_layers.h"
#include "common/ids.h"
#include "common/layer_memory.h"
#include "common/layer_slots.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/model/slot_requirements.h"
#include "worker/model/stage.h"
#include "worker/model/stage_skips.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

// A stage made of layers. Lays its layers' regions out inside the slots it is handed, as MemoryOfStage in
// common/layer_memory.h says: for full micro-batches; ragged ones use a front part of each region. A layer writes its
// output where the next has its input, and the next writes its input gradient where the first has its output gradient,
// so that nothing is copied but the stage's own input and output gradient, where they are kept, and what skip
// connections carry. Of frozen layers no more is called than the trained ones need. Allocates nothing after Create.
// Executor's thread only.
class LayeredStage : public Stage {
 public:
  // Layers of `graph`; `state` holds (at least) these and outlives the stage, as does `device`. INVALID_ARGUMENT: a
  // layer that does not fit its parameters or this worker, or cannot be recomputed, or skip connections that are wrong.
  static absl::StatusOr<std::unique_ptr<LayeredStage>> Create(Device& device, const v1::JobSpec& spec,
                                                              const v1::ModelGraph& graph, const StageExtent& extent,
                                                              const StageState& state);

  // INVALID_ARGUMENT (all four): more samples than planned, a slot or tensor that is missing or too small.
  const StageSlotBytes& slot_bytes() const override { return slots_.bytes(); }
  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const StageMemoryView& memory) override;
  absl::Status Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient, const Tensor& input_gradient,
                             const StageMemoryView& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                              const StageMemoryView& memory) override;

 private:
  // Where one layer's regions start, each in the slot that MemoryOf takes it from.
  struct PlacedLayer {
    std::string name;
    std::unique_ptr<Layer> layer;
    LayerRole role = LayerRole::kTrained;
    LayerMemoryBytes bytes;
    int64_t input_columns = 0;   // 0: tokens
    int64_t output_columns = 0;  // 0: the loss
    bool is_recomputed = false;
    uint64_t input = 0;            // in `shared` when it is kept, or else in `scratch`
    uint64_t output_gradient = 0;  // in `pending` when it is kept, or else in `scratch`
    uint64_t saved = 0, shared = 0, pending = 0, scratch = 0;
  };
  // The ends of what has been placed in each slot.
  struct SlotEnds {
    uint64_t saved = 0, shared = 0, remade = 0, pending = 0, recomputed = 0;
  };

  LayeredStage(Device& device, const v1::ModelGraph& graph, const SlotRequirements& slots, StageSkips skips);
  absl::Status Place(const v1::ModelGraph& graph, uint32_t index, bool is_recomputed, std::unique_ptr<Layer> layer,
                     SlotEnds& ends);
  absl::Status CheckFollows(const PlacedLayer& placed) const;
  static void PlaceRegions(const LayerSlots& slots, SlotEnds& ends, PlacedLayer& placed);
  LayerMemory MemoryOf(const PlacedLayer& placed, const StageMemoryView& memory) const;

  // The activation [samples, seq, columns] at `data`; tokens for an embedding's input, the loss for a head's output.
  Tensor InputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  Tensor OutputAt(std::byte* data, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  Tensor InputIn(const StageMemoryView& memory, const PlacedLayer& placed, const MicroBatch& micro_batch) const;
  // Empty for the head.
  Tensor OutputGradientIn(const StageMemoryView& memory, const PlacedLayer& placed,
                          const MicroBatch& micro_batch) const;
  // The first layer's input and the last one's output gradient: copies in a slot where they are kept, and otherwise
  // what comes from outside.
  absl::StatusOr<Tensor> TakeInput(const MicroBatch& micro_batch, const Tensor& input,
                                   const StageMemoryView& memory) const;
  absl::StatusOr<Tensor> TakeOutputGradient(const MicroBatch& micro_batch, const Tensor& output_gradient,
                                            const StageMemoryView& memory) const;
  // Of layer `i` of those here; empty: nobody wants it.
  Tensor InputGradientOf(size_t i, const Tensor& stage_input_gradient, const StageMemoryView& memory,
                         const MicroBatch& micro_batch) const;
  // Copies what comes from outside into its place in a slot.
  absl::Status EnqueueCopyIn(Stream& stream, const char* what, const Tensor& from, const Tensor& to) const;

  Device& device_;
  const SlotRequirements slots_;
  const StageSkips skips_;
  const int64_t seq_len_;
  const uint64_t element_bytes_;
  std::vector<PlacedLayer> layers_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYERED_STAGE_H_
