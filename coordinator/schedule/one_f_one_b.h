#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ONE_F_ONE_B_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ONE_F_ONE_B_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Warm-up forwards fill the pipeline, then one forward and one backward in turn: the bubble of gpipe with the
// activations of at most P micro-batches.
class OneForwardOneBackwardSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "1f1b"; }
  absl::string_view description() const override {
    return "one forward, one backward in turn; any P and M; bubble (P-1)/(M+P-1), min(M, P-rank) activations";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ONE_F_ONE_B_H_
