#include "coordinator/program/step_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "coordinator/schedule/pruned_table.h"

namespace stagecoach {
namespace {

class Bounds {
 public:
  Bounds(const v1::ComputeTable& table, const StageTimes& times)
      : table_(table), times_(times), backward_(BackwardOfTable(table)), head_(times.num_stages()) {
    SetTraits();
    SetHeads();
    SetTails();
  }

  double OfWorkers() const;
  double OfEdges() const;

 private:
  void SetTraits();
  void SetHeads();
  void SetTails();
  // Until the gradient of an I or a B leaves the stage, at least.
  double GradientSeconds(uint32_t stage) const;
  double ForwardEdge(uint32_t edge) const;
  double BackwardEdge(uint32_t edge) const;

  const v1::ComputeTable& table_;
  const StageTimes& times_;
  const std::vector<StageBackward> backward_;
  std::vector<uint32_t> num_forwards_;   // [num_stages]
  std::vector<uint32_t> num_gradients_;  // I and B
  std::vector<uint32_t> num_whole_;      // B
  std::vector<uint32_t> num_apart_;      // W that stand apart from their I
  uint32_t lowest_input_ = 0;            // the lowest stage that has an I or B; num_stages: none has
  // From the start until the first micro-batch can have come down to each stage.
  std::vector<double> head_;
  // From the end of each stage's last F to the end of all, up to the last stage and down again as far as gradients go.
  std::vector<double> forward_tail_;
  // From the end of its last I or B.
  std::vector<double> backward_tail_;
};

void Bounds::SetTraits() {
  lowest_input_ = times_.num_stages();
  for (uint32_t stage = times_.num_stages(); stage-- > 0;) {
    if (backward_[stage].input) lowest_input_ = stage;
  }
  num_forwards_.resize(times_.num_stages());
  num_gradients_.resize(times_.num_stages());
  num_whole_.resize(times_.num_stages());
  num_apart_.resize(times_.num_stages());
  for (const v1::WorkerActions& row : table_.workers()) {
    for (const v1::Action& action : row.actions()) {
      const v1::ActionKind kind = action.kind();
      if (kind == v1::ACTION_KIND_BACKWARD) ++num_whole_[action.stage()];
      if (kind == v1::ACTION_KIND_BACKWARD_WEIGHT) ++num_apart_[action.stage()];
      if (kind == v1::ACTION_KIND_FORWARD) ++num_forwards_[action.stage()];
      if (kind == v1::ACTION_KIND_BACKWARD || kind == v1::ACTION_KIND_BACKWARD_INPUT) ++num_gradients_[action.stage()];
    }
  }
}

void Bounds::SetHeads() {
  for (uint32_t s = 1; s < head_.size(); ++s) {
    head_[s] = head_[s - 1] + times_.CostOf(s - 1).forward + times_.HopSeconds(s - 1);
  }
}

double Bounds::GradientSeconds(uint32_t stage) const {
  const StageCost cost = times_.CostOf(stage);
  return cost.backward_input + (num_apart_[stage] > 0 || num_whole_[stage] == 0 ? 0 : cost.backward_weight);
}

void Bounds::SetTails() {
  const uint32_t num_stages = times_.num_stages();
  backward_tail_.resize(num_stages);
  forward_tail_.resize(num_stages);
  // A W that stands apart may run while the gradient travels on; only that of the lowest stage comes after the last I,
  // which is the last of all when none is in a B.
  if (lowest_input_ < num_stages && num_apart_[lowest_input_] > 0 && num_whole_[lowest_input_] == 0) {
    backward_tail_[lowest_input_] = times_.CostOf(lowest_input_).backward_weight;
  }
  for (uint32_t s = lowest_input_ + 1; s < num_stages; ++s) {
    backward_tail_[s] = backward_tail_[s - 1] + times_.HopSeconds(s - 1) + GradientSeconds(s - 1);
  }
  const uint32_t last = num_stages - 1;
  if (lowest_input_ < num_stages) forward_tail_[last] = GradientSeconds(last) + backward_tail_[last];
  for (uint32_t s = last; s > 0; --s) {
    forward_tail_[s - 1] = forward_tail_[s] + times_.HopSeconds(s - 1) + times_.CostOf(s).forward;
  }
}

// A worker is busy for all that its row holds; before that its first micro-batch must come down from stage 0, and after
// it its last one must go on to where it ends.
double Bounds::OfWorkers() const {
  double bound = 0;
  for (const v1::WorkerActions& row : table_.workers()) {
    double busy = 0;
    double busy_before_tail = 0;
    double least_head = std::numeric_limits<double>::infinity();
    double least_tail = std::numeric_limits<double>::infinity();
    for (const v1::Action& action : row.actions()) {
      const uint32_t stage = action.stage();
      busy += times_.Duration(action);
      if (action.kind() != v1::ACTION_KIND_BACKWARD_WEIGHT) busy_before_tail += times_.Duration(action);
      least_head = std::min(least_head, head_[stage]);
      least_tail = std::min(least_tail, backward_[stage].input ? backward_tail_[stage] : forward_tail_[stage]);
    }
    if (row.actions().empty()) continue;
    bound = std::max(bound, least_head + std::max(busy, busy_before_tail + least_tail));
  }
  return bound;
}

// The last one that is through still has to be computed on.
double Bounds::ForwardEdge(uint32_t edge) const {
  if (num_forwards_[edge + 1] == 0) return 0;
  const double waiting = times_.EdgeSeconds(edge) * (num_forwards_[edge + 1] - 1);
  return head_[edge + 1] + waiting + times_.CostOf(edge + 1).forward + forward_tail_[edge + 1];
}

double Bounds::BackwardEdge(uint32_t edge) const {
  if (num_gradients_[edge] == 0) return 0;
  const uint32_t last = times_.num_stages() - 1;
  double head = head_[last] + times_.CostOf(last).forward + GradientSeconds(last);
  for (uint32_t s = last; s > edge + 1; --s) head += times_.HopSeconds(s - 1) + GradientSeconds(s - 1);
  const double waiting = times_.EdgeSeconds(edge) * (num_gradients_[edge] - 1);
  return head + times_.HopSeconds(edge) + waiting + GradientSeconds(edge) + backward_tail_[edge];
}

double Bounds::OfEdges() const {
  double bound = 0;
  for (uint32_t edge = 0; edge + 1 < times_.num_stages(); ++edge) {
    if (!times_.IsHop(edge)) continue;
    bound = std::max({bound, ForwardEdge(edge), BackwardEdge(edge)});
  }
  return bound;
}

}  // namespace

double StepBound(const v1::ComputeTable& table, const StageTimes& times) {
  const Bounds bounds(table, times);
  return std::max(bounds.OfWorkers(), bounds.OfEdges());
}

}  // namespace stagecoach
