#ifndef STAGECOACH_COORDINATOR_SCHEDULE_ZB_H1_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_ZB_H1_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Zero bubble within the memory of 1F1B's first stage: a third of its bubble when F, I and W take as long as each
// other. Source: Qi et al., Zero Bubble Pipeline Parallelism, section 2.3, ZB-H1. Its bubble, (P-1)(F+I-W), needs W <=
// F and, for the span, W <= I; of any costs the device bubble is (P-1)(I + max(0, F-W)) and the span's (P-1) max(F, I,
// F+I-W).
class ZbH1Schedule final : public Schedule {
 public:
  absl::string_view name() const override { return "zb_h1"; }
  absl::string_view description() const override {
    return "1F1B with W split off to fill bubbles; any P and M; M >= P, F = I = W: bubble (P-1)/(3M+P-1); "
           "P activations on every worker, of which rank+1 wait for their W";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_ZB_H1_H_
