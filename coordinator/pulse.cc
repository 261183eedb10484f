#include "coordinator/pulse.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

// What a busy host makes of any wait.
constexpr absl::Duration kUsualLateness = absl::Milliseconds(50);

void GiveTime(absl::Duration now, absl::Duration late, const State& state, Decision& decision) {
  // What is heard before this look is not of the future.
  const auto past = [&](absl::Duration time) { return std::min(time + late, now); };
  for (const auto& [id, known] : state.workers()) {
    WorkerRecord worker = known;
    worker.deadline += late;
    worker.last_seen = past(worker.last_seen);
    worker.unmoved_since = past(worker.unmoved_since);
    decision.effects.push_back(ObserveFact{WorkerChanged{std::move(worker)}});
  }
  decision.effects.push_back(ObserveFact{FleetAwaited{state.fleet_awaited_until() + late}});
  for (const JobId& id : state.active_jobs()) {
    JobProgress progress = state.jobs().at(id).progress;
    progress.deadline += late;
    progress.phase_began = past(progress.phase_began);
    progress.run_ordered = past(progress.run_ordered);
    for (MemberProgress& member : progress.said) member.answered_at = past(member.answered_at);
    decision.effects.push_back(ObserveFact{ProgressChanged{id, std::move(progress)}});
  }
}

}  // namespace

ObserveFact FirstPulse(absl::Duration now, const State& state) {
  return ObserveFact{PulseSet{now + state.options().heartbeat_interval, absl::ZeroDuration()}};
}

std::optional<Decision> OnPulse(absl::Duration now, const State& state) {
  if (now < state.pulse().at) return std::nullopt;
  const FleetOptions& options = state.options();
  const absl::Duration late = now - state.pulse().at;
  PulseSet next{now + options.heartbeat_interval, state.pulse().lenient_until};
  if (late <= kUsualLateness) return Decision{{ObserveFact{next}}, "pulse"};
  // Workers whose leases were over have hung up: what comes now is as after a restart.
  if (late > options.lease / 2) next.lenient_until = now + options.reattach_timeout;
  Decision decision{{ObserveFact{next}}, absl::StrCat("the coordinator stood still for ", absl::FormatDuration(late))};
  GiveTime(now, late, state, decision);
  return decision;
}

}  // namespace stagecoach
