#include "common/trace/pipeline_trace.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stagecoach {
namespace {

bool IsOnTheWayBack(SpanKind kind) { return kind == SpanKind::kBackward || kind == SpanKind::kBackwardInput; }

using StepAndMicroBatch = std::pair<uint64_t, uint32_t>;

std::map<uint32_t, std::optional<double>> BusySeconds(const PipelineTrace& trace, uint64_t step) {
  std::map<uint32_t, std::optional<double>> busy;  // by worker
  for (const TraceStage& stage : trace.stages) busy[stage.worker];
  for (const TraceSpan& span : trace.spans) {
    if (span.step != step || span.stage >= trace.stages.size()) continue;
    std::optional<double>& seconds = busy[trace.stages[span.stage].worker];
    seconds = seconds.value_or(0) + (IsBusy(span.kind) ? span.end - span.begin : 0);
  }
  return busy;
}

}  // namespace

bool IsBusy(SpanKind kind) { return kind != SpanKind::kWait && kind != SpanKind::kLoad; }

std::vector<MicroBatchFlow> FlowsOf(const PipelineTrace& trace) {
  std::map<StepAndMicroBatch, std::vector<size_t>> ways;
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const TraceSpan& span = trace.spans[i];
    if (!span.micro_batch.has_value()) continue;
    if (span.kind == SpanKind::kForward || IsOnTheWayBack(span.kind)) ways[{span.step, *span.micro_batch}].push_back(i);
  }
  std::vector<MicroBatchFlow> flows;
  for (auto& [of, way] : ways) {
    if (way.size() < 2) continue;
    std::sort(way.begin(), way.end(), [&](size_t a, size_t b) {
      const TraceSpan &one = trace.spans[a], &other = trace.spans[b];
      const bool back = IsOnTheWayBack(one.kind);
      if (back != IsOnTheWayBack(other.kind)) return !back;
      return back ? one.stage > other.stage : one.stage < other.stage;
    });
    flows.push_back({.step = of.first, .micro_batch = of.second, .spans = std::move(way)});
  }
  return flows;
}

std::vector<StepUtilization> UtilizationOf(const PipelineTrace& trace) {
  std::vector<StepUtilization> all;
  for (const TraceStep& step : trace.steps) {
    StepUtilization& utilization = all.emplace_back();
    utilization.step = step.step;
    utilization.seconds = step.end - step.begin;
    std::map<uint32_t, std::optional<double>> of_worker = BusySeconds(trace, step.step);
    double sum = 0;
    int num_known = 0;
    for (auto& [worker, busy] : of_worker) {
      if (!busy.has_value() || utilization.seconds <= 0) {
        busy.reset();
        continue;
      }
      busy = std::clamp(*busy / utilization.seconds, 0.0, 1.0);
      sum += *busy;
      ++num_known;
    }
    if (num_known > 0) utilization.bubble_ratio = 1 - sum / num_known;
    for (const TraceStage& stage : trace.stages) utilization.stages.push_back(of_worker.at(stage.worker));
  }
  return all;
}

}  // namespace stagecoach
