#ifndef STAGECOACH_WORKER_MODEL_SIMULATED_STAGE_H_
#define STAGECOACH_WORKER_MODEL_SIMULATED_STAGE_H_

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/simulated_device.h"
#include "worker/model/slot_requirements.h"
#include "worker/model/stage.h"
#include "worker/model/stage_timer.h"

namespace stagecoach {

// A stage that computes nothing and takes the time that a cost model gives it, asleep, so that many workers run on few
// cores as if each had a device. A call takes the seconds of the transformer blocks that have it (frozen ones have no
// W, and no I below every trained layer) times the micro-batch's share of a full one, from when it begins; R those of a
// forward of the recomputed ones. It needs the slots of the real
// stage and touches none of them; of its tensors it writes the loss alone, 0. Executor's thread only. A call ends with
// ABORTED within 100 ms of Stream::Cancel.
class SimulatedStage final : public Stage {
 public:
  // Layers of `graph`. Errors of SlotRequirements.
  static absl::StatusOr<std::unique_ptr<SimulatedStage>> Create(const SimulatedCosts& costs,
                                                                std::unique_ptr<StageTimer> timer, const Device& device,
                                                                const v1::ModelGraph& graph, const StageExtent& extent);

  // INVALID_ARGUMENT (all four): more samples than planned, a slot that is too small, no place for the loss.
  const StageSlotBytes& slot_bytes() const override { return slots_.bytes(); }
  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const StageMemoryView& memory) override;
  absl::Status Recompute(const MicroBatch& micro_batch, const StageMemoryView& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& output_gradient, const Tensor& input_gradient,
                             const StageMemoryView& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& labels,
                              const StageMemoryView& memory) override;

 private:
  SimulatedStage(const SimulatedCosts& costs, double recompute_seconds, std::unique_ptr<StageTimer> timer,
                 const SlotRequirements& slots, bool has_head)
      : costs_(costs),
        recompute_seconds_(recompute_seconds),
        timer_(std::move(timer)),
        slots_(slots),
        has_head_(has_head) {}
  absl::Status Spend(double seconds, const MicroBatch& micro_batch);

  const SimulatedCosts costs_;  // of the whole stage, with a full micro-batch
  const double recompute_seconds_;
  const std::unique_ptr<StageTimer> timer_;
  const SlotRequirements slots_;
  const bool has_head_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_SIMULATED_STAGE_H_
