#include "coordinator/schedule/auto_graph.h"

#include <algorithm>
#include <cmath>

#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

// Limits are sums and quotients of round numbers: one that is short of a whole chunk by a rounding error is whole.
constexpr double kRounding = 1e-9;

uint32_t Capacity(const ScheduleProblem& problem, uint32_t worker) {
  const uint32_t all = problem.num_chunks * problem.num_micro_batches;
  if (problem.memory_limit.empty()) return all;
  const double chunks = std::floor(problem.memory_limit[worker] * problem.num_chunks + kRounding);
  return chunks < all ? static_cast<uint32_t>(chunks) : all;
}

double DurationOf(const StageCost& cost, AutoKind kind) {
  switch (kind) {
    case AutoKind::kForward:
      return cost.forward;
    case AutoKind::kBackwardInput:
      return cost.backward_input;
    case AutoKind::kBackwardWeight:
      return cost.backward_weight;
  }
  return 0;
}

v1::ActionKind ActionKindOf(AutoKind kind) {
  switch (kind) {
    case AutoKind::kForward:
      return v1::ACTION_KIND_FORWARD;
    case AutoKind::kBackwardInput:
      return v1::ACTION_KIND_BACKWARD_INPUT;
    case AutoKind::kBackwardWeight:
      return v1::ACTION_KIND_BACKWARD_WEIGHT;
  }
  return v1::ACTION_KIND_UNSPECIFIED;
}

}  // namespace

AutoGraph::AutoGraph(const ScheduleProblem& problem, StagePlacement placement)
    : num_workers_(problem.num_workers),
      num_chunks_(problem.num_chunks),
      num_micro_batches_(problem.num_micro_batches),
      placement_(placement),
      stages_of_worker_(problem.num_workers),
      origin_(problem.num_workers, 0) {
  for (uint32_t stage = 0; stage < num_stages(); ++stage) {
    stages_of_worker_[WorkerOfStage(placement, num_workers_, stage)].push_back(stage);
  }
  for (uint32_t worker = 0; worker < num_workers_; ++worker) capacity_.push_back(Capacity(problem, worker));
  AddNodes(problem);
  const uint32_t last = num_stages() - 1;
  for (uint32_t stage = 0; stage < last; ++stage) {
    Connect(problem, stage, stage + 1, AutoKind::kForward, AutoKind::kForward);
    Connect(problem, stage + 1, stage, AutoKind::kBackwardInput, AutoKind::kBackwardInput);
  }
  Connect(problem, last, last, AutoKind::kForward, AutoKind::kBackwardInput);
  if (problem.objective == Objective::kDevice) SetOrigins();
}

void AutoGraph::AddNodes(const ScheduleProblem& problem) {
  std::vector<double> busy(num_workers_, 0);
  nodes_.reserve(size_t{num_stages()} * kNumAutoKinds * num_micro_batches_);
  for (uint32_t stage = 0; stage < num_stages(); ++stage) {
    const StageCost cost = problem.cost_of_stage.empty() ? StageCost{} : problem.cost_of_stage[stage];
    const uint32_t worker = WorkerOfStage(placement_, num_workers_, stage);
    for (const AutoKind kind : {AutoKind::kForward, AutoKind::kBackwardInput, AutoKind::kBackwardWeight}) {
      AutoNode node = {.duration = DurationOf(cost, kind), .worker = worker, .stage = stage, .kind = kind};
      busy[worker] += node.duration;
      for (node.micro_batch = 0; node.micro_batch < num_micro_batches_; ++node.micro_batch) nodes_.push_back(node);
    }
  }
  period_ = *std::max_element(busy.begin(), busy.end());
}

void AutoGraph::Connect(const ScheduleProblem& problem, uint32_t from_stage, uint32_t to_stage, AutoKind from,
                        AutoKind to) {
  const bool is_hop = nodes_[Index(from_stage, from, 0)].worker != nodes_[Index(to_stage, to, 0)].worker;
  for (uint32_t i = 0; i < num_micro_batches_; ++i) {
    AutoNode& node = nodes_[Index(from_stage, from, i)];
    node.output = Index(to_stage, to, i);
    nodes_[node.output].input = Index(from_stage, from, i);
    if (!is_hop) continue;
    node.latency = problem.communication_seconds;
    if (i >= kMaxUnread) {
      node.room = Index(to_stage, to, i - kMaxUnread);
      nodes_[node.room].gives_room_to = Index(from_stage, from, i);
    }
    if (!problem.edge_seconds.empty()) node.edge_seconds = problem.edge_seconds[std::min(from_stage, to_stage)];
  }
}

void AutoGraph::SetOrigins() {
  double start = 0;
  for (uint32_t worker = 0; worker < num_workers_; ++worker) {  // stage r < P is on worker r in both placements
    origin_[worker] = start;
    const AutoNode& node = nodes_[Index(worker, AutoKind::kForward, 0)];
    start = start + node.duration + node.edge_seconds + node.latency;
  }
}

AutoRows AutoGraph::RowsOf(const v1::ComputeTable& table) const {
  AutoRows rows(num_workers_);
  for (uint32_t worker = 0; worker < num_workers_; ++worker) {
    for (const v1::Action& action : table.workers(static_cast<int>(worker)).actions()) {
      const auto append = [&](AutoKind kind) {
        rows[worker].push_back(Index(action.stage(), kind, action.micro_batch()));
      };
      if (action.kind() == v1::ACTION_KIND_FORWARD) append(AutoKind::kForward);
      if (action.kind() == v1::ACTION_KIND_BACKWARD || action.kind() == v1::ACTION_KIND_BACKWARD_INPUT) {
        append(AutoKind::kBackwardInput);
      }
      if (action.kind() == v1::ACTION_KIND_BACKWARD || action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT) {
        append(AutoKind::kBackwardWeight);
      }
    }
  }
  return rows;
}

v1::ComputeTable AutoGraph::TableOf(const AutoRows& rows, const std::string& schedule) const {
  v1::ComputeTable table;
  table.set_schedule(schedule);
  table.set_num_stages(num_stages());
  table.set_num_micro_batches(num_micro_batches_);
  for (const std::vector<uint32_t>& row : rows) {
    v1::WorkerActions& worker = *table.add_workers();
    for (const uint32_t index : row) {
      const AutoNode& node = nodes_[index];
      Append(worker, ActionKindOf(node.kind), node.stage, node.micro_batch);
    }
  }
  return table;
}

bool AutoGraph::Accepts(const AutoRows& rows) const {
  std::vector<uint32_t> next(size_t{num_stages()} * kNumAutoKinds, 0);  // micro-batch of each stage and kind
  for (uint32_t worker = 0; worker < num_workers_; ++worker) {
    if (rows[worker].size() != size_t{num_chunks_} * kNumAutoKinds * num_micro_batches_) return false;
    uint32_t held = 0;
    for (const uint32_t index : rows[worker]) {
      const AutoNode& node = nodes_[index];
      if (node.micro_batch != next[index / num_micro_batches_]++) return false;
      if (node.kind == AutoKind::kForward && ++held > capacity_[worker]) return false;
      if (node.kind == AutoKind::kBackwardWeight) --held;
    }
  }
  return true;
}

}  // namespace stagecoach
