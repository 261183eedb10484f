#include "client/commands/timeline_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/program/lowering.h"
#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

char Symbol(const v1::Action& action) {
  const char first = action.kind() == v1::ACTION_KIND_FORWARD ? '0' : 'a';
  const uint32_t period = action.kind() == v1::ACTION_KIND_FORWARD ? 10 : 26;
  return static_cast<char>(first + static_cast<int>(action.micro_batch() % period));
}

}  // namespace

std::string TimelineText(const Timeline& timeline, int columns) {
  std::string text;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    std::string row(static_cast<size_t>(columns), '.');
    for (const TimedAction& timed : timeline.workers[worker]) {
      const auto column = [&](double time) {
        return std::clamp(static_cast<int>(std::lround(time / timeline.makespan * columns)), 0, columns);
      };
      for (int i = column(timed.start); i < column(timed.end); ++i) row[static_cast<size_t>(i)] = Symbol(timed.action);
    }
    absl::StrAppend(&text, absl::StrFormat("worker %-3d |%s|\n", worker, row));
  }
  absl::StrAppend(&text, "0-9: forward of a micro-batch (last digit), a-z: backward, dot: idle\n");
  return text;
}

std::string TimelineTrace(const Timeline& timeline) {
  nlohmann::json events = nlohmann::json::array();
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", worker},
                      {"args", {{"name", absl::StrCat("worker ", worker)}}}});
    for (const TimedAction& timed : timeline.workers[worker]) {
      events.push_back({{"name", ActionText(timed.action)},
                        {"ph", "X"},
                        {"pid", worker},
                        {"tid", 0},
                        {"ts", timed.start * 1e6},
                        {"dur", (timed.end - timed.start) * 1e6}});
    }
  }
  return nlohmann::json({{"traceEvents", events}, {"displayTimeUnit", "ms"}}).dump() + "\n";
}

}  // namespace stagecoach
