#include "coordinator/schedule/auto_timing.h"

#include <algorithm>
#include <limits>

namespace stagecoach {

AutoCost CostOfEnds(const AutoGraph& graph, const AutoRows& rows, const std::vector<double>& ends) {
  AutoCost cost = {.worst = -std::numeric_limits<double>::infinity(), .mean = 0};
  for (uint32_t worker = 0; worker < graph.num_workers(); ++worker) {
    const double seconds = ends[rows[worker].back()] - graph.origin(worker);
    cost.worst = std::max(cost.worst, seconds);
    cost.mean += seconds / graph.num_workers();
  }
  return cost;
}

AutoTiming::AutoTiming(const AutoGraph& graph)
    : graph_(graph), start_(graph.size()), end_(graph.size()), sent_(graph.size()) {}

bool AutoTiming::Run(const AutoRows& rows, bool rooms) {
  has_run_.assign(graph_.size(), 0);
  position_.assign(graph_.num_workers(), 0);
  order_.clear();
  for (uint32_t worker = graph_.num_workers(); worker > 0; --worker) runnable_.push_back(worker - 1);
  while (!runnable_.empty()) {
    const uint32_t worker = runnable_.back();
    runnable_.pop_back();
    AdvanceRow(rows, worker, rooms);
  }
  if (order_.size() < graph_.size()) return false;
  cost_ = CostOfEnds(graph_, rows, end_);
  return true;
}

void AutoTiming::AdvanceRow(const AutoRows& rows, uint32_t worker, bool rooms) {
  const std::vector<uint32_t>& row = rows[worker];
  uint32_t& position = position_[worker];
  while (position < row.size()) {
    const uint32_t index = row[position];
    const AutoNode& node = graph_.node(index);
    double earliest = position == 0 ? 0 : end_[row[position - 1]];
    if (node.input != kNoNode) {
      if (has_run_[node.input] == 0) return;
      earliest = std::max(earliest, sent_[node.input] + graph_.node(node.input).latency);
    }
    if (rooms && node.room != kNoNode) {
      if (has_run_[node.room] == 0) return;
      earliest = std::max(earliest, start(node.room));
    }
    start_[index] = earliest;
    end_[index] = earliest + node.duration;
    const double edge_free = node.micro_batch == 0 ? 0 : sent_[index - 1];
    sent_[index] = std::max(end_[index], edge_free) + node.edge_seconds;
    has_run_[index] = 1;
    order_.push_back(index);
    ++position;
    Wake(rows, node.output);
    if (rooms) Wake(rows, node.gives_room_to);
  }
}

// The worker whose next action this is may go on.
void AutoTiming::Wake(const AutoRows& rows, uint32_t index) {
  if (index == kNoNode) return;
  const uint32_t worker = graph_.node(index).worker;
  const uint32_t next = position_[worker];
  if (next < rows[worker].size() && rows[worker][next] == index) runnable_.push_back(worker);
}

}  // namespace stagecoach
