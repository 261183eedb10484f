#include "common/trace/clock_alignment.h"

#include <algorithm>
#include <limits>
#include <map>

namespace stagecoach {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // seconds

// Node 0 is the clock of the trace, node 1 + i that of the i-th worker. at(a, b) is the most that a's offset may exceed
// b's.
class Differences {
 public:
  explicit Differences(size_t num_nodes) : num_nodes_(num_nodes), most_(num_nodes * num_nodes, kUnbounded) {
    for (size_t node = 0; node < num_nodes; ++node) at(node, node) = 0;
  }
  double& at(size_t a, size_t b) { return most_[a * num_nodes_ + b]; }
  void Limit(size_t a, size_t b, double most) { at(a, b) = std::min(at(a, b), most); }

  // Floyd and Warshall: every difference as small as the others make it. False: there are no such offsets.
  bool Close() {
    for (size_t over = 0; over < num_nodes_; ++over) {
      for (size_t a = 0; a < num_nodes_; ++a) {
        for (size_t b = 0; b < num_nodes_; ++b) Limit(a, b, at(a, over) + at(over, b));
      }
    }
    for (size_t node = 0; node < num_nodes_; ++node) {
      if (at(node, node) < -kRounding) return false;
    }
    return true;
  }

 private:
  const size_t num_nodes_;
  std::vector<double> most_;
};

// Node of each worker with a clock.
std::map<uint32_t, size_t> NodesOf(const PipelineTrace& trace) {
  std::map<uint32_t, size_t> nodes;
  for (const TraceStage& stage : trace.stages) {
    if (stage.clock_error.has_value()) nodes.emplace(stage.worker, nodes.size() + 1);
  }
  return nodes;
}

void LimitByOrder(const PipelineTrace& trace, const std::map<uint32_t, size_t>& nodes, Differences& differences) {
  for (const MicroBatchFlow& flow : FlowsOf(trace)) {
    for (size_t i = 1; i < flow.spans.size(); ++i) {
      const TraceSpan& before = trace.spans[flow.spans[i - 1]];
      const TraceSpan& after = trace.spans[flow.spans[i]];
      const auto earlier = nodes.find(trace.stages[before.stage].worker);
      const auto later = nodes.find(trace.stages[after.stage].worker);
      if (earlier == nodes.end() || later == nodes.end() || earlier == later) continue;
      differences.Limit(earlier->second, later->second, after.begin - before.end);
    }
  }
}

// The trace begins at 0 or later, as before.
void KeepFromBeforeItsBegin(PipelineTrace& trace) {
  double first = 0;
  for (const TraceSpan& span : trace.spans) first = std::min(first, span.begin);
  for (const TraceTransfer& transfer : trace.transfers) first = std::min(first, transfer.begin);
  for (TraceSpan& span : trace.spans) span.begin -= first, span.end -= first;
  for (TraceTransfer& transfer : trace.transfers) transfer.begin -= first, transfer.end -= first;
  for (TraceStep& step : trace.steps) step.begin -= first, step.end -= first;
}

}  // namespace

void AlignClocks(PipelineTrace& trace) {
  const std::map<uint32_t, size_t> nodes = NodesOf(trace);
  Differences differences(nodes.size() + 1);
  for (const TraceStage& stage : trace.stages) {
    if (!stage.clock_error.has_value()) continue;
    const size_t node = nodes.at(stage.worker);
    differences.Limit(node, 0, *stage.clock_error);
    differences.Limit(0, node, *stage.clock_error);
  }
  LimitByOrder(trace, nodes, differences);
  if (!differences.Close()) return;
  const auto offset = [&](uint32_t stage) {
    const auto found = nodes.find(trace.stages[stage].worker);
    return found == nodes.end() ? 0.0 : (differences.at(found->second, 0) - differences.at(0, found->second)) / 2;
  };
  for (TraceSpan& span : trace.spans) span.begin += offset(span.stage), span.end += offset(span.stage);
  for (TraceTransfer& transfer : trace.transfers) {
    transfer.begin += offset(transfer.stage);
    transfer.end += offset(transfer.stage);
  }
  for (TraceStage& stage : trace.stages) {
    if (!stage.clock_error.has_value()) continue;
    const size_t node = nodes.at(stage.worker);
    stage.clock_error = std::max(0.0, (differences.at(node, 0) + differences.at(0, node)) / 2);
  }
  KeepFromBeforeItsBegin(trace);
}

}  // namespace stagecoach
