#include "common/trace/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/trace/transfer_lanes.h"
#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kComputeThread = 1;
constexpr char kFlowName[] = "micro-batch";

// To the nanosecond, so that spans that touch still touch once they are added up.
int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }
uint32_t ProcessOf(uint32_t stage) { return stage + 1; }

const char* CategoryOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kBackward:
    case SpanKind::kBackwardInput:
      return "backward";
    case SpanKind::kBackwardWeight:
      return "weight_grad";
    case SpanKind::kRecompute:
      return "recompute";
    case SpanKind::kUpdate:
      return "optimizer";
    case SpanKind::kOther:
      return "other";
    case SpanKind::kLoad:
      return "data_wait";
    case SpanKind::kWait:
      return "p2p_wait";
  }
  return "other";
}

Json Metadata(const char* name, uint32_t process, uint32_t thread, Json arguments) {
  return {{"name", name}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", std::move(arguments)}};
}

Json Complete(const std::string& name, const char* category, double begin, double end, uint32_t process,
              uint32_t thread, Json arguments) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", Microseconds(Nanoseconds(begin))},
          {"dur", Microseconds(std::max<int64_t>(Nanoseconds(end) - Nanoseconds(begin), 0))},
          {"pid", process},
          {"tid", thread},
          {"args", std::move(arguments)}};
}

Json SpanEvent(const TraceSpan& span) {
  Json arguments = {{"step", span.step}};
  if (span.micro_batch.has_value()) arguments["micro_batch"] = *span.micro_batch;
  return Complete(span.name, CategoryOf(span.kind), span.begin, span.end, ProcessOf(span.stage), kComputeThread,
                  std::move(arguments));
}

Json TransferEvent(const TraceTransfer& transfer, uint32_t thread) {
  Json arguments = {{"step", transfer.step}, {"micro_batch", transfer.micro_batch}, {"bytes", transfer.bytes}};
  if (!transfer.complete) arguments["complete"] = false;
  return Complete(transfer.name, "transfer", transfer.begin, transfer.end, ProcessOf(transfer.stage), thread,
                  std::move(arguments));
}

// Where a flow touches a span.
struct FlowPoint {
  size_t span = 0;
  double time = 0;
};

// In the middle of each span, which is surely within. The clocks of two workers agree only up to an error, so that a
// span may seem to lie before the one it comes after: it is touched later, or, when it had ended by then, not at all. A
// flow never goes back in time.
std::vector<FlowPoint> PointsOf(const PipelineTrace& trace, const MicroBatchFlow& flow) {
  std::vector<FlowPoint> points;
  for (const size_t index : flow.spans) {
    const TraceSpan& span = trace.spans[index];
    const double middle = (span.begin + span.end) / 2;
    const double time = points.empty() ? middle : std::max(middle, points.back().time);
    if (time <= span.end) points.push_back({index, time});
  }
  if (points.size() < 2) points.clear();
  return points;
}

Json FlowEvent(const PipelineTrace& trace, const MicroBatchFlow& flow, const std::vector<FlowPoint>& points,
               size_t point) {
  const TraceSpan& span = trace.spans[points[point].span];
  const bool is_last = point + 1 == points.size();
  Json event = {{"name", kFlowName},
                {"cat", "flow"},
                {"ph", point == 0 ? "s"
                       : is_last  ? "f"
                                  : "t"},
                {"id", absl::StrCat("step ", flow.step, ", micro-batch ", flow.micro_batch)},
                {"ts", Microseconds(Nanoseconds(points[point].time))},
                {"pid", ProcessOf(span.stage)},
                {"tid", kComputeThread}};
  if (is_last) event["bp"] = "e";  // the slice that encloses it, not the next one
  return event;
}

// Events of all kinds as references, so that a large trace is put in order without being written twice.
class EventList {
 public:
  EventList(const PipelineTrace& trace, const TransferLanes& lanes)
      : trace_(trace), lanes_(lanes), flows_(FlowsOf(trace)), utilization_(UtilizationOf(trace)) {
    for (size_t i = 0; i < trace.steps.size(); ++i) Add(trace.steps[i].begin, Kind::kStep, i);
    for (size_t i = 0; i < trace.spans.size(); ++i) Add(trace.spans[i].begin, Kind::kSpan, i);
    for (size_t i = 0; i < trace.transfers.size(); ++i) Add(trace.transfers[i].begin, Kind::kTransfer, i);
    for (size_t i = 0; i < flows_.size(); ++i) {
      flow_points_.push_back(PointsOf(trace, flows_[i]));
      for (size_t point = 0; point < flow_points_[i].size(); ++point) {
        Add(flow_points_[i][point].time, Kind::kFlow, i, point);
      }
    }
    std::sort(events_.begin(), events_.end());
  }

  template <typename Write>
  void ForEach(Write write) const {
    for (const auto& [time, kind, index, point] : events_) write(MakeEvent(kind, index, point));
  }

 private:
  enum class Kind { kStep, kSpan, kTransfer, kFlow };  // at equal times in this order

  void Add(double time, Kind kind, size_t index, size_t point = 0) { events_.emplace_back(time, kind, index, point); }

  Json MakeEvent(Kind kind, size_t index, size_t point) const {
    switch (kind) {
      case Kind::kStep:
        return StepEvent(index);
      case Kind::kSpan:
        return SpanEvent(trace_.spans[index]);
      case Kind::kTransfer:
        return TransferEvent(trace_.transfers[index], lanes_.lane(index) + kComputeThread + 1);
      case Kind::kFlow:
        return FlowEvent(trace_, flows_[index], flow_points_[index], point);
    }
    return Json();
  }

  Json StepEvent(size_t index) const {
    const TraceStep& step = trace_.steps[index];
    Json arguments = {{"step", step.step}};
    if (utilization_[index].bubble_ratio.has_value()) arguments["bubble_ratio"] = *utilization_[index].bubble_ratio;
    return Complete(absl::StrCat("step ", step.step), "step", step.begin, step.end,
                    ProcessOf(static_cast<uint32_t>(trace_.stages.size())), kComputeThread, std::move(arguments));
  }

  const PipelineTrace& trace_;
  const TransferLanes& lanes_;
  const std::vector<MicroBatchFlow> flows_;
  std::vector<std::vector<FlowPoint>> flow_points_;  // by flow
  const std::vector<StepUtilization> utilization_;
  std::vector<std::tuple<double, Kind, size_t, size_t>> events_;
};

std::string StageText(const PipelineTrace& trace, uint32_t stage) {
  const TraceStage& of = trace.stages[stage];
  std::string text = absl::StrCat("stage ", stage);
  if (!of.worker_name.empty()) absl::StrAppend(&text, " (", of.worker_name, ")");
  if (!of.missing.empty()) absl::StrAppend(&text, ": no trace: ", of.missing);
  return text;
}

template <typename Write>
void WriteMetadata(const PipelineTrace& trace, const TransferLanes& lanes, Write write) {
  const auto num_stages = static_cast<uint32_t>(trace.stages.size());
  const auto process = [&](uint32_t number, const std::string& name, uint32_t place) {
    write(Metadata("process_name", number, kComputeThread, {{"name", name}}));
    write(Metadata("process_sort_index", number, kComputeThread, {{"sort_index", place}}));
  };
  const auto thread = [&](uint32_t of, uint32_t number, const std::string& name) {
    write(Metadata("thread_name", of, number, {{"name", name}}));
    write(Metadata("thread_sort_index", of, number, {{"sort_index", number}}));
  };
  process(ProcessOf(num_stages), trace.name, 0);
  thread(ProcessOf(num_stages), kComputeThread, "steps");
  for (uint32_t stage = 0; stage < num_stages; ++stage) {
    process(ProcessOf(stage), StageText(trace, stage), ProcessOf(stage));
    thread(ProcessOf(stage), kComputeThread, "compute");
    const std::vector<std::string>& names = lanes.names(stage);
    for (uint32_t lane = 0; lane < names.size(); ++lane) {
      thread(ProcessOf(stage), kComputeThread + 1 + lane, names[lane]);
    }
  }
}

Json OtherData(const PipelineTrace& trace) {
  Json steps = Json::array();
  for (const StepUtilization& step : UtilizationOf(trace)) {
    Json utilization = Json::array();
    for (const auto& ratio : step.stages) utilization.push_back(ratio.has_value() ? Json(*ratio) : Json());
    steps.push_back({{"step", step.step},
                     {"step_seconds", step.seconds},
                     {"bubble_ratio", step.bubble_ratio.has_value() ? Json(*step.bubble_ratio) : Json()},
                     {"stage_utilization", std::move(utilization)}});
  }
  Json stages = Json::array();
  for (const TraceStage& stage : trace.stages) {
    Json described = {{"worker", stage.worker_name}, {"worker_rank", stage.worker}};
    if (stage.clock_error.has_value()) described["clock_error_seconds"] = *stage.clock_error;
    if (!stage.missing.empty()) described["missing"] = stage.missing;
    stages.push_back(std::move(described));
  }
  return {{"name", trace.name}, {"stages", std::move(stages)}, {"steps", std::move(steps)}, {"notes", trace.notes}};
}

// Names come from users: bytes that are not UTF-8 are replaced.
std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

void WriteChromeTrace(const PipelineTrace& trace, std::ostream& out) {
  out << "{\"displayTimeUnit\": \"ms\", \"otherData\": " << Text(OtherData(trace)) << ",\n\"traceEvents\": [";
  const char* separator = "\n";
  const auto write = [&](const Json& event) {
    out << separator << Text(event);
    separator = ",\n";
  };
  const TransferLanes lanes(trace);
  WriteMetadata(trace, lanes, write);
  EventList(trace, lanes).ForEach(write);
  out << "\n]}\n";
}

}  // namespace stagecoach
