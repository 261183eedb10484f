#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ZB_V_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ZB_V_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Zero bubble on every worker in the memory of 1F1B's first stage: each worker holds a stage on the way down and one on
// the way up, so that a micro-batch's backward starts where its forward ended. Source: Qi et al., Zero Bubble Pipeline
// Parallelism, section 6, ZB-V. Needs F = I = W to be without bubble; workers start one after another, so the span
// keeps (P-1)F/2.
class ZbVSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "zb_v"; }
  absl::string_view description() const override {
    return "two stages per worker in a V, W split off; any P and M, V = 2; M >= 2P-1, F = I = W: bubble "
           "(P-1)/(6M+P-1), 0 on each worker; P activations on every worker, of which rank+1/2 wait for their W";
  }
  StagePlacement placement() const override { return StagePlacement::kV; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ZB_V_H_
