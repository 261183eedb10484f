#ifndef STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Evaluation: every forward, in micro-batch order, and nothing else.
class ForwardOnlySchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "forward_only"; }
  absl::string_view description() const override {
    return "forwards alone, for evaluation; any P and M; bubble (P-1)/(M+P-1), one activation";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return true; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_
