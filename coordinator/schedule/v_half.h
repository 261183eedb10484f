#ifndef STAGECOACH_COORDINATOR_SCHEDULE_V_HALF_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_V_HALF_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Half the activations of 1F1B's first stage on every worker, with less than half its bubble. Source: Qi et al.,
// Pipeline Parallelism with Controllable Memory, section 4 (V-Half): the passes of one micro-batch are a building block
// with fixed distances between neighbouring workers, repeated every six passes; the distances set how long activations
// live. Where the paper shifts passes at both ends, W's fill here whatever gap there is, so that for F = I = W, M >= P
// >= 3 the bubble is (3P-5)F/2, to the (P-1)3F/2 that the paper aims at. Other costs leave a gap in every round: the
// order is that of F=I=W.
class VHalfSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "v_half"; }
  absl::string_view description() const override {
    return "two stages per worker in a V, half the memory of 1f1b; any P and M, V = 2; M >= P >= 3, F = I = W: "
           "bubble (3P-5)/(6M+3P-5); (P+2)/2 activations on every worker";
  }
  StagePlacement placement() const override { return StagePlacement::kV; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_V_HALF_H_
