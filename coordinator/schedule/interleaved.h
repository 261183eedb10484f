#ifndef STAGECOACH_COORDINATOR_SCHEDULE_INTERLEAVED_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_INTERLEAVED_H_

#include "coordinator/schedule/schedule.h"

namespace stagecoach {

// 1F1B over several stages per worker: a group of micro-batches goes through one chunk, then through the next, so that
// the pipeline fills with passes of 1 / V of the size. Source: Narayanan et al., Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM, section 2.2.2, which needs M to be a multiple of P; the groups here are
// as equal as they can be with at least P each, larger ones first, and keep its bubble for every M >= P. The price is
// memory: a group has up to 2P-1. Fewer than P micro-batches are one group. With one chunk this is 1F1B.
class InterleavedSchedule final : public Schedule {
 public:
  absl::string_view name() const override { return "interleaved"; }
  absl::string_view description() const override {
    return "1F1B over V stages per worker; any P, M and V; M >= P: bubble (P-1)/(VM+P-1), at most "
           "(2(P-1-rank)+(V-1)G+1)/V activations for groups of G, P to 2P-1, micro-batches";
  }
  StagePlacement placement() const override { return StagePlacement::kLoop; }
  bool forward_only() const override { return false; }
  bool AcceptsChunks(uint32_t num_chunks) const override { return num_chunks >= 1; }
  absl::StatusOr<v1::ComputeTable> Build(const ScheduleProblem& problem) const override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_INTERLEAVED_H_
