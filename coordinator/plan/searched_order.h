#ifndef STAGECOACH_COORDINATOR_PLAN_SEARCHED_ORDER_H_
#define STAGECOACH_COORDINATOR_PLAN_SEARCHED_ORDER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// F, I and W of the largest problem that is searched. Beyond, a table fills a journal entry of about a megabyte,
// and what a search may take does not get far.
inline constexpr uint64_t kMaxSearchedActions = 100'000;
bool IsSearchable(const ScheduleProblem& problem);

// An order for the same stages on the same workers as `table` has, searched for the times of `problem`
// (coordinator/schedule/auto_schedule.h): no worker holds more micro-batches, and the same stages recompute. Both are
// whole, without anything left out for frozen layers: what is left of the order may hold more than what is left of
// `table`, where a worker has stages of both kinds. Bounded by work, such that it takes about a second of one core
// whatever the problem. Its schedule is `auto`; it may be no shorter than `table`. Pure. INVALID_ARGUMENT: as
// SearchSchedule.
absl::StatusOr<v1::ComputeTable> SearchedOrder(const ScheduleProblem& problem, const v1::ComputeTable& table,
                                               StagePlacement placement);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PLAN_SEARCHED_ORDER_H_
