#include "coordinator/program/simulator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/program/memory_curve.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/pruned_table.h"

namespace stagecoach {
namespace {

// Runs the rows of a table side by side: a row advances as long as the inputs of its next action have an arrival time.
class TableClock {
 public:
  TableClock(const v1::ComputeTable& table, const ScheduleProblem& problem)
      : table_(table),
        problem_(problem),
        forward_end_(ActionsOfAKind()),
        input_end_(ActionsOfAKind()),
        activation_arrival_(ActionsOfAKind()),
        gradient_arrival_(ActionsOfAKind()),
        forward_edge_free_(table.num_stages()),
        backward_edge_free_(table.num_stages()) {}

  absl::Status CheckShape();
  absl::StatusOr<Timeline> Run();
  double LowerBound() const;

 private:
  using Ends = std::vector<std::optional<double>>;
  struct RowTraits {
    uint32_t lowest_input = 0;          // the lowest stage that has an I or B; num_stages: none has
    bool splits_backward = false;       // a W stands apart from its I
    std::vector<bool> has_weight = {};  // [num_stages]
  };

  Ends ActionsOfAKind() const { return Ends(size_t{table_.num_stages()} * table_.num_micro_batches()); }
  size_t Index(uint32_t stage, uint32_t micro_batch) const {
    return size_t{stage} * table_.num_micro_batches() + micro_batch;
  }
  StageCost CostOf(uint32_t stage) const {
    return problem_.cost_of_stage.empty() ? StageCost{} : problem_.cost_of_stage[stage];
  }
  bool IsHop(uint32_t edge) const { return worker_of_stage_[edge] != worker_of_stage_[edge + 1]; }
  double EdgeSeconds(uint32_t edge) const { return problem_.edge_seconds.empty() ? 0 : problem_.edge_seconds[edge]; }
  double HopSeconds(uint32_t edge) const {
    return IsHop(edge) ? EdgeSeconds(edge) + problem_.communication_seconds : 0;
  }
  double Duration(const v1::Action& action) const;
  std::optional<double> InputArrival(const v1::Action& action) const;
  double Transfer(uint32_t edge, double sent, double& edge_free) const;
  void Finish(const v1::Action& action, double end);
  RowTraits TraitsOfRows() const;
  std::vector<double> Heads() const;
  std::vector<double> Tails(const RowTraits& traits) const;
  bool AdvanceRow(size_t worker, Timeline& timeline);
  absl::Status Stuck(const Timeline& timeline) const;

  const v1::ComputeTable& table_;
  const ScheduleProblem& problem_;
  std::vector<uint32_t> worker_of_stage_;
  Ends forward_end_;
  Ends input_end_;           // of I, or of the whole B: when the input gradient leaves
  Ends activation_arrival_;  // of what the stage sends: at the stage after it
  Ends gradient_arrival_;    // at the stage before it
  // When each direction of the edge between a stage and the next has carried all that was sent so far.
  std::vector<double> forward_edge_free_;
  std::vector<double> backward_edge_free_;
};

absl::Status TableClock::CheckShape() {
  if (table_.workers_size() == 0 || table_.num_stages() == 0 || table_.num_micro_batches() == 0 ||
      table_.num_stages() % static_cast<uint32_t>(table_.workers_size()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a table of ", table_.workers_size(), " workers, ",
                                                   table_.num_stages(), " stages and ", table_.num_micro_batches(),
                                                   " micro-batches cannot be timed"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckTimes(problem_, table_.num_stages()));
  for (int worker = 0; worker < table_.workers_size(); ++worker) {
    for (const v1::Action& action : table_.workers(worker).actions()) {
      if (action.stage() >= table_.num_stages() || action.micro_batch() >= table_.num_micro_batches() ||
          action.kind() < v1::ACTION_KIND_FORWARD || action.kind() > v1::ACTION_KIND_RECOMPUTE) {
        return absl::InvalidArgumentError(
            absl::StrCat(ActionText(action), " on worker ", worker, " is not an action of this table"));
      }
    }
  }
  STAGECOACH_ASSIGN_OR_RETURN(worker_of_stage_, WorkersOfStages(table_));
  return absl::OkStatus();
}

double TableClock::Duration(const v1::Action& action) const {
  const StageCost cost = CostOf(action.stage());
  switch (action.kind()) {
    case v1::ACTION_KIND_FORWARD:
      return cost.forward;
    case v1::ACTION_KIND_BACKWARD:
      return cost.backward_input + cost.backward_weight;
    case v1::ACTION_KIND_BACKWARD_INPUT:
      return cost.backward_input;
    case v1::ACTION_KIND_RECOMPUTE:
      return cost.recompute;
    default:
      return cost.backward_weight;
  }
}

// One direction of an edge carries one transfer at a time, in the order they were sent: that of the sender's row.
double TableClock::Transfer(uint32_t edge, double sent, double& edge_free) const {
  if (!IsHop(edge)) return sent;
  edge_free = std::max(sent, edge_free) + EdgeSeconds(edge);
  return edge_free + problem_.communication_seconds;
}

std::optional<double> TableClock::InputArrival(const v1::Action& action) const {
  const uint32_t stage = action.stage();
  switch (action.kind()) {
    case v1::ACTION_KIND_FORWARD:
      return stage == 0 ? 0 : activation_arrival_[Index(stage - 1, action.micro_batch())];
    case v1::ACTION_KIND_BACKWARD_WEIGHT:
      return input_end_[Index(stage, action.micro_batch())];
    case v1::ACTION_KIND_RECOMPUTE:
      return forward_end_[Index(stage, action.micro_batch())];
    default:
      break;
  }
  const std::optional<double> forward = forward_end_[Index(stage, action.micro_batch())];
  if (stage + 1 == table_.num_stages() || !forward.has_value()) return forward;
  return gradient_arrival_[Index(stage + 1, action.micro_batch())];
}

void TableClock::Finish(const v1::Action& action, double end) {
  // Nothing of these leaves the worker.
  if (action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT || action.kind() == v1::ACTION_KIND_RECOMPUTE) return;
  const uint32_t stage = action.stage();
  const size_t index = Index(stage, action.micro_batch());
  if (action.kind() == v1::ACTION_KIND_FORWARD) {
    forward_end_[index] = end;
    if (stage + 1 == table_.num_stages()) return;
    activation_arrival_[index] = Transfer(stage, end, forward_edge_free_[stage]);
    return;
  }
  input_end_[index] = end;
  if (stage > 0) gradient_arrival_[index] = Transfer(stage - 1, end, backward_edge_free_[stage - 1]);
}

bool TableClock::AdvanceRow(size_t worker, Timeline& timeline) {
  const v1::WorkerActions& row = table_.workers(static_cast<int>(worker));
  std::vector<TimedAction>& timed = timeline.workers[worker];
  const size_t before = timed.size();
  while (timed.size() < static_cast<size_t>(row.actions_size())) {
    const v1::Action& action = row.actions(static_cast<int>(timed.size()));
    const std::optional<double> arrival = InputArrival(action);
    if (!arrival.has_value()) break;
    const double start = timed.empty() ? *arrival : std::max(*arrival, timed.back().end);
    timed.push_back({action, start, start + Duration(action)});
    Finish(action, timed.back().end);
  }
  return timed.size() > before;
}

absl::Status TableClock::Stuck(const Timeline& timeline) const {
  std::string waiting;
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const v1::WorkerActions& row = table_.workers(static_cast<int>(worker));
    const size_t next = timeline.workers[worker].size();
    if (next == static_cast<size_t>(row.actions_size())) continue;
    absl::StrAppend(&waiting, waiting.empty() ? "" : ", ", ActionText(row.actions(static_cast<int>(next))),
                    " on worker ", worker);
  }
  return absl::InvalidArgumentError(absl::StrCat("these wait for inputs that nothing makes: ", waiting));
}

absl::StatusOr<Timeline> TableClock::Run() {
  Timeline timeline;
  timeline.workers.resize(static_cast<size_t>(table_.workers_size()));
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t worker = 0; worker < timeline.workers.size(); ++worker) progress |= AdvanceRow(worker, timeline);
  }
  for (size_t worker = 0; worker < timeline.workers.size(); ++worker) {
    const v1::WorkerActions& row = table_.workers(static_cast<int>(worker));
    if (timeline.workers[worker].size() < static_cast<size_t>(row.actions_size())) return Stuck(timeline);
  }
  return timeline;
}

// From the start until the first micro-batch can have come down to each stage.
std::vector<double> TableClock::Heads() const {
  std::vector<double> head(table_.num_stages());
  for (uint32_t s = 1; s < head.size(); ++s) head[s] = head[s - 1] + CostOf(s - 1).forward + HopSeconds(s - 1);
  return head;
}

// From the end of each stage's last I or B to the end of all; of the last F of stages without either, that is up to the
// last stage, and down again as far as gradients go.
std::vector<double> TableClock::Tails(const RowTraits& traits) const {
  const uint32_t num_stages = table_.num_stages();
  const uint32_t lowest = traits.lowest_input;
  std::vector<double> tail(num_stages);
  for (uint32_t s = lowest + 1; s < num_stages; ++s) {
    const StageCost below = CostOf(s - 1);
    tail[s] = tail[s - 1] + HopSeconds(s - 1) + below.backward_input;
    // A W that stands apart may run while the gradient travels on; only that of the lowest comes after the last I.
    if (!traits.splits_backward || s == lowest + 1) tail[s] += traits.has_weight[s - 1] ? below.backward_weight : 0;
  }
  double after_forward = 0;
  if (lowest < num_stages) {
    const StageCost last = CostOf(num_stages - 1);
    after_forward = last.backward_input + tail[num_stages - 1];
    if (!traits.splits_backward && traits.has_weight[num_stages - 1]) after_forward += last.backward_weight;
  }
  for (uint32_t s = num_stages - 1; s > 0; --s) {
    after_forward += HopSeconds(s - 1) + CostOf(s).forward;
    if (s - 1 < lowest) tail[s - 1] = after_forward;
  }
  return tail;
}

TableClock::RowTraits TableClock::TraitsOfRows() const {
  RowTraits traits{.lowest_input = table_.num_stages()};
  const std::vector<StageBackward> backward = BackwardOfTable(table_);
  for (uint32_t stage = table_.num_stages(); stage-- > 0;) {
    if (backward[stage].input) traits.lowest_input = stage;
  }
  for (const StageBackward& stage : backward) traits.has_weight.push_back(stage.weight);
  for (const v1::WorkerActions& row : table_.workers()) {
    for (const v1::Action& action : row.actions()) {
      traits.splits_backward |= action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT;
    }
  }
  return traits;
}

// A worker is busy for all that its row holds; before that its first micro-batch must come down from stage 0, and
// after it its last one must go on to where it ends.
double TableClock::LowerBound() const {
  const RowTraits traits = TraitsOfRows();
  const std::vector<double> head = Heads();
  const std::vector<double> tail = Tails(traits);
  double bound = 0;
  for (int worker = 0; worker < table_.workers_size(); ++worker) {
    double busy = 0;
    double busy_before_tail = 0;
    double least_head = std::numeric_limits<double>::infinity();
    double least_tail = std::numeric_limits<double>::infinity();
    for (const v1::Action& action : table_.workers(worker).actions()) {
      busy += Duration(action);
      if (action.kind() != v1::ACTION_KIND_BACKWARD_WEIGHT) busy_before_tail += Duration(action);
      least_head = std::min(least_head, head[action.stage()]);
      least_tail = std::min(least_tail, tail[action.stage()]);
    }
    if (table_.workers(worker).actions().empty()) continue;
    bound = std::max(bound, least_head + std::max(busy, busy_before_tail + least_tail));
  }
  return bound;
}

void MeasureBubbles(Timeline& timeline) {
  double first_start = std::numeric_limits<double>::infinity();
  double last_end = 0;
  double longest_interval = 0;
  double busy = 0;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    if (row.empty()) continue;
    first_start = std::min(first_start, row.front().start);
    last_end = std::max(last_end, row.back().end);
    longest_interval = std::max(longest_interval, row.back().end - row.front().start);
    for (const TimedAction& timed : row) busy += timed.end - timed.start;
  }
  if (longest_interval <= 0) return;
  const double mean_busy = busy / static_cast<double>(timeline.workers.size());
  timeline.makespan = last_end - first_start;
  timeline.bubble_ratio_span = 1 - mean_busy / timeline.makespan;
  timeline.bubble_ratio_device = 1 - mean_busy / longest_interval;
}

void MeasurePeaks(Timeline& timeline) {
  for (const std::vector<MemoryPoint>& curve : MemoryCurves(timeline)) {
    double activations = 0;
    double pending_weight = 0;
    for (const MemoryPoint& point : curve) {
      activations = std::max(activations, point.activations);
      pending_weight = std::max(pending_weight, point.pending_weight);
    }
    timeline.peak_activations.push_back(activations);
    timeline.peak_pending_weight.push_back(pending_weight);
  }
}

}  // namespace

absl::StatusOr<Timeline> Simulate(const v1::ComputeTable& table, const ScheduleProblem& problem) {
  TableClock clock(table, problem);
  STAGECOACH_RETURN_IF_ERROR(clock.CheckShape());
  STAGECOACH_ASSIGN_OR_RETURN(Timeline timeline, clock.Run());
  MeasureBubbles(timeline);
  // Sums in another order may differ in the last bit.
  timeline.lower_bound = std::min(clock.LowerBound(), timeline.makespan);
  MeasurePeaks(timeline);
  return timeline;
}

}  // namespace stagecoach
