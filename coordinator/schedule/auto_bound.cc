#include "coordinator/schedule/auto_bound.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace stagecoach {
namespace {

void Raise(double& value, double candidate) { value = std::max(value, candidate); }

}  // namespace

AutoBound::AutoBound(const AutoGraph& graph)
    : graph_(graph), head_(graph.size()), sent_(graph.size()), tail_(graph.size()), sent_tail_(graph.size()) {
  SetHeads();
  SetTails();
  seconds_ = -std::numeric_limits<double>::infinity();
  for (uint32_t worker = 0; worker < graph_.num_workers(); ++worker) {
    Raise(seconds_, OfWorker(worker));
    Raise(seconds_, OfMemory(worker));
    Raise(seconds_, OfHolding(worker));
  }
}

uint32_t AutoBound::WeightBefore(uint32_t forward) const {
  const AutoNode& node = graph_.node(forward);
  const uint32_t capacity = graph_.capacity(node.worker);
  if (graph_.num_chunks() > 1 || node.micro_batch < capacity) return kNoNode;
  return graph_.Index(node.stage, AutoKind::kBackwardWeight, node.micro_batch - capacity);
}

uint32_t AutoBound::ForwardAfter(uint32_t weight) const {
  const AutoNode& node = graph_.node(weight);
  const uint32_t capacity = graph_.capacity(node.worker);
  if (graph_.num_chunks() > 1 || node.micro_batch + capacity >= graph_.num_micro_batches()) return kNoNode;
  return graph_.Index(node.stage, AutoKind::kForward, node.micro_batch + capacity);
}

void AutoBound::SetHead(uint32_t index) {
  const AutoNode& node = graph_.node(index);
  const auto end = [this](uint32_t before) { return head_[before] + graph_.node(before).duration; };
  double head = node.micro_batch == 0 ? 0 : end(index - 1);
  if (node.input != kNoNode) Raise(head, sent_[node.input] + graph_.node(node.input).latency);
  const uint32_t m = graph_.num_micro_batches();
  if (node.kind != AutoKind::kForward) {
    Raise(head, end(index - m));  // of I the F, of W the I
  } else if (const uint32_t weight = WeightBefore(index); weight != kNoNode) {
    Raise(head, end(weight));
  }
  head_[index] = head;
  sent_[index] = std::max(end(index), node.micro_batch == 0 ? 0 : sent_[index - 1]) + node.edge_seconds;
}

void AutoBound::SetHeads() {
  for (uint32_t i = 0; i < graph_.num_micro_batches(); ++i) {
    for (uint32_t stage = 0; stage < graph_.num_stages(); ++stage) SetHead(graph_.Index(stage, AutoKind::kForward, i));
    for (uint32_t stage = graph_.num_stages(); stage-- > 0;) {
      SetHead(graph_.Index(stage, AutoKind::kBackwardInput, i));
      SetHead(graph_.Index(stage, AutoKind::kBackwardWeight, i));
    }
  }
}

void AutoBound::SetTail(uint32_t index) {
  const AutoNode& node = graph_.node(index);
  const auto from_start = [this](uint32_t after) { return graph_.node(after).duration + tail_[after]; };
  const uint32_t m = graph_.num_micro_batches();
  const bool is_last = node.micro_batch + 1 == m;
  double tail = -graph_.origin(node.worker);
  if (!is_last) Raise(tail, from_start(index + 1));
  if (node.kind != AutoKind::kBackwardWeight) {
    Raise(tail, from_start(index + m));  // of F the I, of I the W
  } else if (const uint32_t forward = ForwardAfter(index); forward != kNoNode) {
    Raise(tail, from_start(forward));
  }
  double sent_tail = tail - node.edge_seconds;
  if (node.output != kNoNode) {
    sent_tail = node.latency + from_start(node.output);
    if (!is_last) Raise(sent_tail, node.edge_seconds + sent_tail_[index + 1]);
    Raise(tail, node.edge_seconds + sent_tail);
  }
  tail_[index] = tail;
  sent_tail_[index] = sent_tail;
}

void AutoBound::SetTails() {
  for (uint32_t i = graph_.num_micro_batches(); i-- > 0;) {
    for (uint32_t stage = 0; stage < graph_.num_stages(); ++stage) {
      SetTail(graph_.Index(stage, AutoKind::kBackwardWeight, i));
      SetTail(graph_.Index(stage, AutoKind::kBackwardInput, i));
    }
    for (uint32_t stage = graph_.num_stages(); stage-- > 0;) SetTail(graph_.Index(stage, AutoKind::kForward, i));
  }
}

double AutoBound::OfWorker(uint32_t worker) const {
  std::vector<uint32_t> nodes;
  for (uint32_t index = 0; index < graph_.size(); ++index) {
    if (graph_.node(index).worker == worker) nodes.push_back(index);
  }
  std::stable_sort(nodes.begin(), nodes.end(), [this](uint32_t a, uint32_t b) { return head_[a] < head_[b]; });
  std::priority_queue<std::pair<double, double>> open;  // (tail, seconds left)
  double bound = -std::numeric_limits<double>::infinity();
  double now = 0;
  for (size_t next = 0; next < nodes.size() || !open.empty();) {
    if (open.empty()) now = std::max(now, head_[nodes[next]]);
    for (; next < nodes.size() && head_[nodes[next]] <= now; ++next) {
      open.push({tail_[nodes[next]], graph_.node(nodes[next]).duration});
    }
    const auto [tail, left] = open.top();
    open.pop();
    const double interruption = next < nodes.size() ? head_[nodes[next]] : std::numeric_limits<double>::infinity();
    if (now + left > interruption) {
      open.push({tail, left - (interruption - now)});
      now = interruption;
    } else {
      now += left;
      Raise(bound, now + tail);
    }
  }
  return bound;
}

double AutoBound::Work(uint32_t worker, AutoKind kind) const {
  double seconds = 0;
  for (const uint32_t stage : graph_.stages(worker)) seconds += graph_.node(graph_.Index(stage, kind, 0)).duration;
  return seconds * graph_.num_micro_batches();
}

// The longest actions of a kind that a worker's memory can hold the activations of.
double AutoBound::LongestInMemory(uint32_t worker, AutoKind kind) const {
  std::vector<double> durations;
  for (const uint32_t stage : graph_.stages(worker))
    durations.push_back(graph_.node(graph_.Index(stage, kind, 0)).duration);
  std::sort(durations.rbegin(), durations.rend());
  uint32_t left = graph_.capacity(worker);
  double seconds = 0;
  for (const double duration : durations) {
    const uint32_t count = std::min(left, graph_.num_micro_batches());
    seconds += count * duration;
    left -= count;
  }
  return seconds;
}

double AutoBound::OfMemory(uint32_t worker) const {
  const double forward = Work(worker, AutoKind::kForward);
  const double input = Work(worker, AutoKind::kBackwardInput);
  const double weight = Work(worker, AutoKind::kBackwardWeight);
  const uint32_t lowest = graph_.stages(worker).front();
  const uint32_t highest = graph_.stages(worker).back();
  const uint32_t first_forward = graph_.Index(lowest, AutoKind::kForward, 0);
  const uint32_t first_input = graph_.Index(highest, AutoKind::kBackwardInput, 0);
  const uint32_t last_input = graph_.Index(lowest, AutoKind::kBackwardInput, graph_.num_micro_batches() - 1);
  const double before_last_input = forward + input + weight - LongestInMemory(worker, AutoKind::kBackwardWeight);
  const double from_first_input = forward + input + weight - LongestInMemory(worker, AutoKind::kForward);
  return std::max(head_[first_forward] + before_last_input + tail_[last_input],
                  head_[first_input] + from_first_input - graph_.origin(worker));
}

// From the start of its F to the end of its W, when a micro-batch meets no other.
double AutoBound::HoldingSeconds(uint32_t stage) const {
  const auto pass = [this](uint32_t s, AutoKind kind) {
    const AutoNode& node = graph_.node(graph_.Index(s, kind, 0));
    return node.duration + node.edge_seconds + node.latency;
  };
  double seconds = pass(stage, AutoKind::kForward);
  for (uint32_t above = stage + 1; above < graph_.num_stages(); ++above) {
    seconds += pass(above, AutoKind::kForward) + pass(above, AutoKind::kBackwardInput);
  }
  return seconds + graph_.node(graph_.Index(stage, AutoKind::kBackwardInput, 0)).duration +
         graph_.node(graph_.Index(stage, AutoKind::kBackwardWeight, 0)).duration;
}

double AutoBound::OfHolding(uint32_t worker) const {
  double seconds = 0;
  for (const uint32_t stage : graph_.stages(worker)) seconds += HoldingSeconds(stage);
  seconds *= static_cast<double>(graph_.num_micro_batches()) / graph_.capacity(worker);
  const uint32_t first_forward = graph_.Index(graph_.stages(worker).front(), AutoKind::kForward, 0);
  return head_[first_forward] + seconds - graph_.origin(worker);
}

}  // namespace stagecoach
