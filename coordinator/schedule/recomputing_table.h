#ifndef STAGECOACH_COORDINATOR_SCHEDULE_RECOMPUTING_TABLE_H_
#define STAGECOACH_COORDINATOR_SCHEDULE_RECOMPUTING_TABLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// The table of any schedule, with an R right before each B or I of the stages that recompute. There it waits for
// nothing that its B or I would not wait for longer, since it needs no gradient, and what it makes is held for the
// shortest time. `recomputes`: [table.num_stages()]. The table has no R yet. Pure.
v1::ComputeTable WithRecomputation(const v1::ComputeTable& table, const std::vector<bool>& recomputes);

// The schedule's table for a problem whose stages recompute, made for their times: what R takes counts as a part of I,
// since it stands before it. Errors of Schedule::Build.
absl::StatusOr<v1::ComputeTable> BuildRecomputing(const Schedule& schedule, const ScheduleProblem& problem,
                                                  const std::vector<bool>& recomputes);

// The stages that have an R. [table.num_stages()]
std::vector<bool> RecomputingStages(const v1::ComputeTable& table);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SCHEDULE_RECOMPUTING_TABLE_H_
