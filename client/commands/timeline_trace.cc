#include "client/commands/timeline_trace.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "client/trace/span_kind.h"
#include "common/action_text.h"
#include "common/trace/chrome_trace.h"

namespace stagecoach {
namespace {

constexpr double kLongestSeconds = 1e6;

double SecondsOfUnit(const Timeline& timeline) {
  double seconds = 1;
  while (timeline.makespan * seconds > kLongestSeconds) seconds /= 1000;
  return seconds;
}

}  // namespace

void WriteTimelineTrace(const Timeline& timeline, const std::string& name, std::ostream& out) {
  const double unit = SecondsOfUnit(timeline);
  PipelineTrace trace{.name = name};
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    for (const TimedAction& timed : timeline.workers[worker]) {
      const v1::Action& action = timed.action;
      trace.stages.resize(std::max<size_t>(trace.stages.size(), action.stage() + 1));
      trace.stages[action.stage()].worker = static_cast<uint32_t>(worker);
      trace.stages[action.stage()].worker_name = absl::StrCat("worker ", worker);
      trace.spans.push_back({.kind = SpanKindOf(action.kind()),
                             .name = ActionText(action),
                             .stage = action.stage(),
                             .micro_batch = action.micro_batch(),
                             .step = 1,
                             .begin = timed.start * unit,
                             .end = timed.end * unit});
    }
  }
  WriteChromeTrace(trace, out);
}

}  // namespace stagecoach
