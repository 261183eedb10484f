#include "coordinator/deadlines.h"

#include <algorithm>

namespace stagecoach {

absl::Duration NextDeadline(const State& state) {
  absl::Duration next = state.pulse().at;
  for (const auto& [id, worker] : state.workers()) next = std::min(next, worker.deadline);
  for (const JobId& id : state.active_jobs()) next = std::min(next, state.jobs().at(id).progress.deadline);
  return std::min(next, state.fleet_awaited_until());
}

}  // namespace stagecoach
