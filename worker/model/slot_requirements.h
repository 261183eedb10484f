#ifndef STAGECOACH_WORKER_MODEL_SLOT_REQUIREMENTS_H_
#define STAGECOACH_WORKER_MODEL_SLOT_REQUIREMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layer_memory.h"
#include "stagecoach/v1/plan.pb.h"
#include "worker/model/stage.h"

namespace stagecoach {

// How large the slots of a stage's calls must be, whatever the stage does with them. A value.
class SlotRequirements {
 public:
  // Of layers of `graph`, for full micro-batches, on a device that computes in `device`'s dtype. Errors of
  // MemoryOfStage.
  static absl::StatusOr<SlotRequirements> Of(const Device& device, const v1::ModelGraph& graph,
                                             const StageExtent& extent);

  const StageSlotBytes& bytes() const { return bytes_; }
  int64_t max_samples() const { return max_samples_; }

  // Of one call. INVALID_ARGUMENT: more samples than planned, or a slot that is too small.
  absl::Status CheckForward(const MicroBatch& micro_batch, const StageMemoryView& memory) const;
  absl::Status CheckRecompute(const MicroBatch& micro_batch, const StageMemoryView& memory) const;
  absl::Status CheckBackwardInput(const MicroBatch& micro_batch, const StageMemoryView& memory) const;
  absl::Status CheckBackwardWeight(const MicroBatch& micro_batch, const StageMemoryView& memory) const;

 private:
  SlotRequirements(const StageSlotBytes& bytes, int64_t max_samples) : bytes_(bytes), max_samples_(max_samples) {}
  absl::Status CheckCall(const MicroBatch& micro_batch, const StageMemoryView& memory) const;

  StageSlotBytes bytes_;
  int64_t max_samples_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_SLOT_REQUIREMENTS_H_
