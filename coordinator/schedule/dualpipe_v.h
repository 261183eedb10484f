#ifndef STAGECOACH_COORDINATOR_SCHEDULE_DUALPIPE_V_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_DUALPIPE_V_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// Forwards of one chunk paired with backwards of the other, whose communication a worker that runs both at once would
// hide; here a pair is two actions, one after the other. Source: DualPipe's DualPipeV ("cut in half" DualPipe): its
// README and the phases that its step names. The bubble (P-1)(F+I-W)/2 needs W <= I <= F <= I+W; it is larger
// otherwise.
class DualPipeVSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "dualpipe_v"; }
  absl::string_view description() const override {
    return "two stages per worker in a V, forwards paired with backwards; any P and M, V = 2; M >= 2P, F = I = W: "
           "bubble "
           "(P-1)/(6M+P-1); P+1/2 activations on every worker, of which (rank+1)/2 wait for their W";
  }
  StagePlacement placement() const override { return StagePlacement::kV; }
  bool forward_only() const override { return false; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_DUALPIPE_V_H_
