#ifndef STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_

#include <cstdint>
#include <span>

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// The forwards of a pipeline alone, for any placement of its stages: whenever a worker is free it runs, of the forwards
// whose input is there, the one of the highest stage, so that a micro-batch goes on as soon as it can and few are under
// way. `worker_of_stage` and the micro-batches are at least one each; workers are numbered from 0 without a gap.
v1::ComputeTable ForwardTable(std::span<const uint32_t> worker_of_stage, uint32_t num_micro_batches);

// Evaluation: every forward, in micro-batch order on each stage, and nothing else.
class ForwardOnlySchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "forward_only"; }
  absl::string_view description() const override {
    return "forwards alone, for evaluation; any P, V and M; bubble (P-1)/(V*M+P-1) if P divides M, one activation";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return true; }
  bool AcceptsChunks(uint32_t num_chunks) const override { return num_chunks > 0; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_FORWARD_ONLY_H_
