#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ZB_H2_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ZB_H2_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Zero bubble on every worker, with nearly twice the memory of 1F1B's first stage; the workers start one after another,
// so a step that ends on all of them together still pays (P-1)F. Source: Qi et al., Zero Bubble Pipeline Parallelism,
// section 2.3, ZB-H2. Its bubble, (P-1)(F+I-2W), is the device bubble and needs I <= F or W <= F; of any costs the
// device bubble is (P-1) max(0, I-F, F+I-2W) and the span's (P-1) max(F, I-F, F+I-2W).
class ZbH2Schedule final : public Schedule {
 public:
  absl::string_view name() const override { return "zb_h2"; }
  absl::string_view description() const override {
    return "zb_h1 with twice the warm-up; any P and M; M >= 2P-1, F = I = W: bubble (P-1)/(3M+P-1), 0 on each worker; "
           "2P-1 activations on every worker, of which 2 rank+1 wait for their W";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ZB_H2_H_
