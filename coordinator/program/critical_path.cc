#include "coordinator/program/critical_path.h"

#include <algorithm>

namespace stagecoach {

std::vector<PathStep> CriticalPath(const Timeline& timeline) {
  std::optional<ActionPlace> place;
  double last_end = 0;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const std::vector<TimedAction>& row = timeline.workers[worker];
    if (row.empty() || (place.has_value() && row.back().end <= last_end)) continue;
    place = {worker, row.size() - 1};
    last_end = row.back().end;
  }
  const std::vector<std::vector<StartCause>> causes = StartCauses(timeline);
  std::vector<PathStep> path;
  while (place.has_value()) {
    const StartCause& start = causes[place->worker][place->index];
    path.push_back({place->worker, timeline.workers[place->worker][place->index], start});
    place = start.after;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

PathShares SharesOf(const std::vector<PathStep>& path, uint32_t num_stages) {
  PathShares shares;
  shares.seconds_of_stage.resize(num_stages);
  for (const PathStep& step : path) {
    shares.seconds_of_stage[step.timed.action.stage()] += step.timed.end - step.timed.start;
    shares.hop_seconds += step.start.hop_seconds;
  }
  return shares;
}

}  // namespace stagecoach
