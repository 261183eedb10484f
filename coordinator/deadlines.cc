#include "coordinator/deadlines.h"

#include <algorithm>

namespace stagecoach {

absl::Duration NextDeadline(const State& state) {
  absl::Duration next = state.pulse().at;
  for (const auto& [id, worker] : state.workers()) next = std::min(next, worker.deadline);
  for (const JobId& id : state.active_jobs()) {
    const JobProgress& progress = state.jobs().at(id).progress;
    next = std::min({next, progress.deadline, progress.checkpoint.deadline});
  }
  return std::min(next, state.fleet_awaited_until());
}

}  // namespace stagecoach
