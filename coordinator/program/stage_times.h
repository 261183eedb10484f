#ifndef STAGECOACH_COORDINATOR_PROGRAM_STAGE_TIMES_H_
#define STAGECOACH_COORDINATOR_PROGRAM_STAGE_TIMES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What a problem says of how long actions and transfers of a table take. The problem outlives it, and has times for
// every stage and edge, or none (CheckTimes). Edge e is between stages e and e + 1.
class StageTimes {
 public:
  // [num_stages]
  StageTimes(const ScheduleProblem& problem, std::vector<uint32_t> worker_of_stage)
      : problem_(problem), worker_of_stage_(std::move(worker_of_stage)) {}

  uint32_t num_stages() const { return static_cast<uint32_t>(worker_of_stage_.size()); }
  StageCost CostOf(uint32_t stage) const {
    return problem_.cost_of_stage.empty() ? StageCost{} : problem_.cost_of_stage[stage];
  }
  double Duration(const v1::Action& action) const;

  // Stages of one worker hand over at once.
  bool IsHop(uint32_t edge) const { return AreApart(edge, edge + 1); }
  bool AreApart(uint32_t stage, uint32_t other_stage) const {
    return worker_of_stage_[stage] != worker_of_stage_[other_stage];
  }
  // For how long a transfer occupies its direction of the edge.
  double EdgeSeconds(uint32_t edge) const {
    return problem_.edge_seconds.empty() || !IsHop(edge) ? 0 : problem_.edge_seconds[edge];
  }
  // After that, until the receiver of another worker has it.
  double LatencySeconds() const { return problem_.communication_seconds; }
  const std::vector<SkipCost>& skip_edges() const { return problem_.skip_edges; }
  double HopSeconds(uint32_t edge) const { return IsHop(edge) ? EdgeSeconds(edge) + LatencySeconds() : 0; }

 private:
  const ScheduleProblem& problem_;
  std::vector<uint32_t> worker_of_stage_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_STAGE_TIMES_H_
