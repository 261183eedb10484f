#ifndef STAGECOACH_COORDINATOR_SCHEDULE_GPIPE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_GPIPE_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// All forwards, then all backwards in micro-batch order.
class GpipeSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "gpipe"; }
  absl::string_view description() const override {
    return "all forwards, then all backwards; any P and M; bubble (P-1)/(M+P-1), M activations";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_GPIPE_H_
