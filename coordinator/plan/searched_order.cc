#include "coordinator/plan/searched_order.h"

#include <algorithm>
#include <vector>

#include "coordinator/schedule/auto_schedule.h"
#include "coordinator/schedule/recomputing_table.h"

namespace stagecoach {
namespace {

// A search of the usual effort takes a second for so many actions, and as much longer as there are more, up to the
// work at which it is bounded by itself: see plan_choice.
constexpr double kActionsOfFullEffort = 600;
constexpr double kLeastEffort = 0.12;

double NumActions(const ScheduleProblem& problem) {
  constexpr double kKinds = 3;  // F, I, W
  return kKinds * problem.num_workers * problem.num_chunks * problem.num_micro_batches;
}

// By the size alone, never by the clock: equal problems have equal orders.
double EffortFor(const ScheduleProblem& problem) {
  return std::clamp(kActionsOfFullEffort / NumActions(problem), kLeastEffort, 1.0);
}

// Micro-batches on one full stage whose F has run and whose W has not, at most. R does not count: what a stage that
// recomputes holds less of, it holds for as long. [num_workers]
std::vector<double> HeldMicroBatches(const v1::ComputeTable& table) {
  std::vector<double> most;
  const double num_chunks = static_cast<double>(table.num_stages()) / table.workers_size();
  for (const v1::WorkerActions& row : table.workers()) {
    int held = 0;
    int peak = 0;
    for (const v1::Action& action : row.actions()) {
      if (action.kind() == v1::ACTION_KIND_FORWARD) peak = std::max(peak, ++held);
      if (action.kind() == v1::ACTION_KIND_BACKWARD || action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT) --held;
    }
    most.push_back(peak / num_chunks);
  }
  return most;
}

}  // namespace

bool IsSearchable(const ScheduleProblem& problem) {
  return problem.num_workers > 1 && NumActions(problem) <= kMaxSearchedActions;
}

absl::StatusOr<v1::ComputeTable> SearchedOrder(const ScheduleProblem& problem, const v1::ComputeTable& table,
                                               StagePlacement placement) {
  ScheduleProblem limited = problem;
  limited.memory_limit = HeldMicroBatches(table);
  const AutoSchedule search({.effort = EffortFor(problem), .placement = placement});
  return BuildRecomputing(search, limited, RecomputingStages(table));
}

}  // namespace stagecoach
