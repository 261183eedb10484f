#include "coordinator/program/simulator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/program/memory_curve.h"
#include "coordinator/program/stage_times.h"
#include "coordinator/program/step_bound.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

absl::Status CheckShape(const v1::ComputeTable& table, const ScheduleProblem& problem) {
  if (table.workers_size() == 0 || table.num_stages() == 0 || table.num_micro_batches() == 0 ||
      table.num_stages() % static_cast<uint32_t>(table.workers_size()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a table of ", table.workers_size(), " workers, ",
                                                   table.num_stages(), " stages and ", table.num_micro_batches(),
                                                   " micro-batches cannot be timed"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckTimes(problem, table.num_stages()));
  for (int worker = 0; worker < table.workers_size(); ++worker) {
    for (const v1::Action& action : table.workers(worker).actions()) {
      if (action.stage() >= table.num_stages() || action.micro_batch() >= table.num_micro_batches() ||
          action.kind() < v1::ACTION_KIND_FORWARD || action.kind() > v1::ACTION_KIND_RECOMPUTE) {
        return absl::InvalidArgumentError(
            absl::StrCat(ActionText(action), " on worker ", worker, " is not an action of this table"));
      }
    }
  }
  return absl::OkStatus();
}

using Ends = std::vector<std::optional<double>>;

// What it takes and makes stays there.
bool StaysOnWorker(const v1::Action& action) {
  return action.kind() == v1::ACTION_KIND_BACKWARD_WEIGHT || action.kind() == v1::ACTION_KIND_RECOMPUTE;
}

// When the last of what an action waits for is there, and which stage has made it.
struct InputTime {
  double seconds = 0;
  uint32_t stage = 0;
};

// What goes over the skip edges of a problem.
class SkipClock {
 public:
  SkipClock(const StageTimes& times, uint32_t num_micro_batches)
      : times_(times), edges_(times.skip_edges().size()), into_stage_(times.num_stages()) {
    back_into_stage_ = out_of_stage_ = back_out_of_stage_ = into_stage_;
    for (size_t i = 0; i < edges_.size(); ++i) {
      const SkipCost& skip = times.skip_edges()[i];
      edges_[i].down.arrival.resize(num_micro_batches);
      out_of_stage_[skip.from_stage].push_back(i);
      into_stage_[skip.to_stage].push_back(i);
      if (!skip.has_gradient) continue;
      edges_[i].up.arrival.resize(num_micro_batches);
      back_out_of_stage_[skip.to_stage].push_back(i);
      back_into_stage_[skip.from_stage].push_back(i);
    }
  }

  // With `input`, what comes to an F, or to an I or B; nothing while something has no arrival time.
  std::optional<InputTime> With(InputTime input, bool is_forward, uint32_t stage, uint32_t micro_batch) const {
    for (const size_t i : (is_forward ? into_stage_ : back_into_stage_)[stage]) {
      const std::optional<double>& arrival = (is_forward ? edges_[i].down : edges_[i].up).arrival[micro_batch];
      if (!arrival.has_value()) return std::nullopt;
      const SkipCost& skip = times_.skip_edges()[i];
      if (*arrival > input.seconds) input = {*arrival, is_forward ? skip.from_stage : skip.to_stage};
    }
    return input;
  }

  void Send(bool is_forward, uint32_t stage, uint32_t micro_batch, double sent) {
    for (const size_t i : (is_forward ? out_of_stage_ : back_out_of_stage_)[stage]) {
      Direction& direction = is_forward ? edges_[i].down : edges_[i].up;
      direction.arrival[micro_batch] = Transfer(times_.skip_edges()[i], sent, direction.free_from);
    }
  }

 private:
  struct Direction {
    Ends arrival;          // [num_micro_batches]; empty: nothing goes this way
    double free_from = 0;  // when it has carried all that was sent so far
  };
  struct Edge {
    Direction down, up;
  };

  double Transfer(const SkipCost& skip, double sent, double& free_from) const {
    if (!times_.AreApart(skip.from_stage, skip.to_stage)) return sent;
    free_from = std::max(sent, free_from) + skip.seconds;
    return free_from + times_.LatencySeconds();
  }

  const StageTimes& times_;
  std::vector<Edge> edges_;                                     // in the order of the problem
  std::vector<std::vector<size_t>> into_stage_, out_of_stage_;  // of activations
  std::vector<std::vector<size_t>> back_into_stage_, back_out_of_stage_;
};

// Runs the rows of a table side by side: a row advances as long as the inputs of its next action have an arrival time.
class TableClock {
 public:
  TableClock(const v1::ComputeTable& table, const StageTimes& times)
      : table_(table),
        times_(times),
        forward_end_(ActionsOfAKind()),
        input_end_(ActionsOfAKind()),
        activation_arrival_(ActionsOfAKind()),
        gradient_arrival_(ActionsOfAKind()),
        forward_edge_free_(table.num_stages()),
        backward_edge_free_(table.num_stages()),
        skips_(times, table.num_micro_batches()) {}

  absl::StatusOr<Timeline> Run();

 private:
  Ends ActionsOfAKind() const { return Ends(size_t{table_.num_stages()} * table_.num_micro_batches()); }
  size_t Index(uint32_t stage, uint32_t micro_batch) const {
    return size_t{stage} * table_.num_micro_batches() + micro_batch;
  }
  // Without what comes over skip edges.
  std::optional<double> ChainArrival(const v1::Action& action) const;
  std::optional<InputTime> InputArrival(const v1::Action& action) const;
  double Transfer(uint32_t edge, double sent, double& edge_free) const;
  void Finish(const v1::Action& action, double end);
  bool AdvanceRow(size_t worker, Timeline& timeline);
  absl::Status Stuck(const Timeline& timeline) const;

  const v1::ComputeTable& table_;
  const StageTimes& times_;
  Ends forward_end_;
  Ends input_end_;           // of I, or of the whole B: when the input gradient leaves
  Ends activation_arrival_;  // of what the stage sends: at the stage after it
  Ends gradient_arrival_;    // at the stage before it
  // When each direction of the edge between a stage and the next has carried all that was sent so far.
  std::vector<double> forward_edge_free_;
  std::vector<double> backward_edge_free_;
  SkipClock skips_;
};

// One direction of an edge carries one transfer at a time, in the order they were sent: that of the sender's row.
double TableClock::Transfer(uint32_t edge, double sent, double& edge_free) const {
  if (!times_.IsHop(edge)) return sent;
  edge_free = std::max(sent, edge_free) + times_.EdgeSeconds(edge);
  return edge_free + times_.LatencySeconds();
}

std::optional<double> TableClock::ChainArrival(const v1::Action& action) const {
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

std::optional<InputTime> TableClock::InputArrival(const v1::Action& action) const {
  const std::optional<double> arrival = ChainArrival(action);
  if (!arrival.has_value()) return std::nullopt;
  const uint32_t stage = action.stage();
  const bool is_forward = action.kind() == v1::ACTION_KIND_FORWARD;
  if (StaysOnWorker(action)) return InputTime{*arrival, stage};
  const bool is_end = is_forward ? stage == 0 : stage + 1 == table_.num_stages();
  const uint32_t neighbour = is_forward ? stage - 1 : stage + 1;
  return skips_.With({*arrival, is_end ? stage : neighbour}, is_forward, stage, action.micro_batch());
}

void TableClock::Finish(const v1::Action& action, double end) {
  if (StaysOnWorker(action)) return;
  const uint32_t stage = action.stage();
  const size_t index = Index(stage, action.micro_batch());
  skips_.Send(action.kind() == v1::ACTION_KIND_FORWARD, stage, action.micro_batch(), end);
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
    const std::optional<InputTime> input = InputArrival(action);
    if (!input.has_value()) break;
    const double start = timed.empty() ? input->seconds : std::max(input->seconds, timed.back().end);
    timed.push_back({action, start, start + times_.Duration(action), input->stage});
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
  return absl::InvalidArgumentError(
      absl::StrCat("these never begin, since each waits for another or for what nothing makes: ", waiting));
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
  STAGECOACH_RETURN_IF_ERROR(CheckShape(table, problem));
  STAGECOACH_ASSIGN_OR_RETURN(std::vector<uint32_t> worker_of_stage, WorkersOfStages(table));
  const StageTimes times(problem, std::move(worker_of_stage));
  STAGECOACH_ASSIGN_OR_RETURN(Timeline timeline, TableClock(table, times).Run());
  MeasureBubbles(timeline);
  // Sums in another order may differ in the last bit.
  timeline.lower_bound = std::min(StepBound(table, times), timeline.makespan);
  MeasurePeaks(timeline);
  return timeline;
}

}  // namespace stagecoach
