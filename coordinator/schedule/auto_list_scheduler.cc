#include "coordinator/schedule/auto_list_scheduler.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace stagecoach {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

AutoListScheduler::AutoListScheduler(const AutoGraph& graph)
    : graph_(graph), end_(graph.size()), sent_(graph.size()), rows_(graph.num_workers()) {}

void AutoListScheduler::Reset() {
  workers_.assign(graph_.num_workers(), {});
  stages_.assign(graph_.num_stages(), {});
  sent_.assign(graph_.size(), -1);
  events_.clear();
  for (std::vector<uint32_t>& row : rows_) row.clear();
  for (uint32_t worker = 0; worker < graph_.num_workers(); ++worker) Push(0, worker);
}

void AutoListScheduler::Push(double seconds, uint32_t worker) {
  events_.push_back({seconds, worker});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

AutoCost AutoListScheduler::Run(const AutoKeys& keys) {
  Reset();
  while (!events_.empty()) {
    const Event event = events_.front();
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    events_.pop_back();
    if (workers_[event.worker].free_at > event.seconds) continue;
    const Choice choice = Look(keys, event.worker, event.seconds);
    const uint32_t index = Take(keys, choice, event.seconds);
    if (index != kNoNode) {
      Start(index, event.seconds);
    } else if (choice.next_arrival < kNever) {
      Push(choice.next_arrival, event.worker);
    }
  }
  return CostOfEnds(graph_, rows_, end_);
}

double AutoListScheduler::ArrivalOfInput(uint32_t index) const {
  const uint32_t input = graph_.node(index).input;
  if (input == kNoNode) return 0;
  return sent_[input] < 0 ? kNever : sent_[input] + graph_.node(input).latency;
}

bool AutoListScheduler::HasRoom(uint32_t index) const {
  const uint32_t room = graph_.node(index).room;
  return room == kNoNode || sent_[room] >= 0;
}

void AutoListScheduler::Offer(uint32_t index, double arrival, double key, double now, Choice& choice) {
  if (arrival > now) {
    choice.next_arrival = std::min(choice.next_arrival, arrival);
  } else if (key < choice.ready_key) {
    choice.ready_key = key;
    choice.ready = index;
  }
}

void AutoListScheduler::LookAtForward(const AutoKeys& keys, uint32_t stage, double now, Choice& choice) const {
  const uint32_t micro_batch = stages_[stage].next[0];
  if (micro_batch == graph_.num_micro_batches()) return;
  const uint32_t index = graph_.Index(stage, AutoKind::kForward, micro_batch);
  const double arrival = ArrivalOfInput(index);
  if (arrival == kNever || !HasRoom(index)) return;
  const uint32_t worker = graph_.node(index).worker;
  const WorkerState& state = workers_[worker];
  const uint32_t room = graph_.num_chunks() - graph_.chunk(stage);  // for it and one of each chunk above
  if (state.num_in_flight + room > keys.depth[worker]) return;
  if (state.num_held + room <= graph_.capacity(worker)) {
    Offer(index, arrival, keys.key[index], now, choice);
  } else if (arrival <= now) {
    choice.lacks_memory = true;
    choice.blocked_key = std::min(choice.blocked_key, keys.key[index]);
  }
}

AutoListScheduler::Choice AutoListScheduler::Look(const AutoKeys& keys, uint32_t worker, double now) const {
  Choice choice = {.ready_key = kNever, .weight_key = kNever, .blocked_key = kNever, .next_arrival = kNever};
  for (const uint32_t stage : graph_.stages(worker)) {
    const auto& [num_forward, num_input, num_weight] = stages_[stage].next;
    if (num_input < num_forward) {
      const uint32_t index = graph_.Index(stage, AutoKind::kBackwardInput, num_input);
      if (HasRoom(index)) Offer(index, ArrivalOfInput(index), keys.key[index], now, choice);
    }
    LookAtForward(keys, stage, now, choice);
    if (num_weight == num_input) continue;
    const uint32_t index = graph_.Index(stage, AutoKind::kBackwardWeight, num_weight);
    if (keys.key[index] >= choice.weight_key) continue;
    choice.weight_key = keys.key[index];
    choice.weight = index;
  }
  return choice;
}

uint32_t AutoListScheduler::Take(const AutoKeys& keys, const Choice& choice, double now) const {
  if (choice.weight == kNoNode) return choice.ready;
  if (choice.ready != kNoNode) {
    return std::min(choice.weight_key, choice.blocked_key) < choice.ready_key ? choice.weight : choice.ready;
  }
  const double worth_it = keys.patience * graph_.node(choice.weight).duration;
  return choice.lacks_memory || choice.next_arrival - now >= worth_it ? choice.weight : kNoNode;
}

void AutoListScheduler::Start(uint32_t index, double now) {
  const AutoNode& node = graph_.node(index);
  WorkerState& worker = workers_[node.worker];
  end_[index] = worker.free_at = now + node.duration;
  sent_[index] = std::max(end_[index], node.micro_batch == 0 ? 0 : sent_[index - 1]) + node.edge_seconds;
  rows_[node.worker].push_back(index);
  ++stages_[node.stage].next[static_cast<uint32_t>(node.kind)];
  if (node.kind == AutoKind::kForward) ++worker.num_held, ++worker.num_in_flight;
  if (node.kind == AutoKind::kBackwardInput) --worker.num_in_flight;
  if (node.kind == AutoKind::kBackwardWeight) --worker.num_held;
  Push(worker.free_at, node.worker);
  if (node.gives_room_to != kNoNode) {
    const uint32_t writer = graph_.node(node.gives_room_to).worker;
    Push(std::max(workers_[writer].free_at, now), writer);
  }
  if (node.output == kNoNode) return;
  const uint32_t reader = graph_.node(node.output).worker;
  if (reader == node.worker) return;
  Push(std::max(workers_[reader].free_at, sent_[index] + node.latency), reader);
}

}  // namespace stagecoach
