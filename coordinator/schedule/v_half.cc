#include "coordinator/schedule/v_half.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>
#include <vector>

#include "common/check.h"
#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

constexpr uint32_t kInterval = 6;  // F, I and W of both chunks: a worker's work for one micro-batch

// A worker's passes of one kind through one stage.
struct Lane {
  v1::ActionKind kind;
  uint32_t stage;
  uint32_t offset;  // start of the first in the repeated building block
  uint32_t next_micro_batch = 0;

  uint64_t Start(uint32_t num_micro_batches) const {
    if (next_micro_batch == num_micro_batches) return std::numeric_limits<uint64_t>::max();
    return offset + uint64_t{kInterval} * next_micro_batch;
  }
};

// F0 goes down the workers with a distance of 2, F1 up with 1, I1 down with 2, I0 up with 1, so that the two chunks of
// any worker together live for 3P passes and what the turns take. The turns are the shortest, alike at both visits of
// the bottom, for which no two passes of a worker start together and the bubble is least; that depends on the parity of
// P.
std::array<Lane, 4> BuildingBlock(uint32_t p, uint32_t worker) {
  const uint32_t turn_at_bottom = p % 2 == 0 ? 4 : 1;
  const uint32_t turn_at_top = 2;
  const uint32_t forward_up = 2 * (p - 1) + turn_at_bottom;                   // F1 starts on the last worker
  const uint32_t gradient_down = forward_up + (p - 1) + turn_at_top;          // I1 starts on the first
  const uint32_t gradient_up = gradient_down + 2 * (p - 1) + turn_at_bottom;  // I0 starts on the last
  const uint32_t down = worker;
  const uint32_t up = p - 1 - worker;
  return {{{v1::ACTION_KIND_FORWARD, worker, 2 * down},
           {v1::ACTION_KIND_FORWARD, 2 * p - 1 - worker, forward_up + up},
           {v1::ACTION_KIND_BACKWARD_INPUT, 2 * p - 1 - worker, gradient_down + 2 * down},
           {v1::ACTION_KIND_BACKWARD_INPUT, worker, gradient_up + up}}};
}

// Runs all workers side by side in steps of one pass. A worker runs F's and I's in the order of the building block,
// each as soon as its input is there and memory allows, and the oldest pending W when it can run neither.
class UnitClock {
 public:
  UnitClock(const ScheduleProblem& problem, v1::ComputeTable& table)
      : num_micro_batches_(problem.num_micro_batches),
        max_held_(problem.num_workers + 2),
        table_(table),
        num_forwards_(table.num_stages()),
        num_gradients_(table.num_stages()) {
    for (uint32_t worker = 0; worker < problem.num_workers; ++worker) {
      workers_.push_back({.lanes = BuildingBlock(problem.num_workers, worker)});
    }
  }

  // Appends what each worker runs; false when none runs anything.
  bool Step();

 private:
  struct Worker {
    std::array<Lane, 4> lanes;
    std::queue<v1::Action> pending_weights = {};
    uint32_t num_held = 0;  // F ended, W not
  };

  uint32_t NumInputs(const Lane& lane) const;
  std::optional<v1::Action> RunOne(Worker& worker) const;
  static v1::Action RunLane(Worker& worker, Lane& lane);

  const uint32_t num_micro_batches_;
  const uint32_t max_held_;
  v1::ComputeTable& table_;
  std::vector<Worker> workers_;
  // [num_stages] Micro-batches whose F, or I, ended before this step; all pass a stage in the same order.
  std::vector<uint32_t> num_forwards_;
  std::vector<uint32_t> num_gradients_;
};

bool UnitClock::Step() {
  std::vector<v1::Action> ended;
  for (size_t worker = 0; worker < workers_.size(); ++worker) {
    const std::optional<v1::Action> action = RunOne(workers_[worker]);
    if (!action.has_value()) continue;
    *table_.mutable_workers(static_cast<int>(worker))->add_actions() = *action;
    ended.push_back(*action);
  }
  for (const v1::Action& action : ended) {
    if (action.kind() == v1::ACTION_KIND_FORWARD) ++num_forwards_[action.stage()];
    if (action.kind() == v1::ACTION_KIND_BACKWARD_INPUT) ++num_gradients_[action.stage()];
  }
  return !ended.empty();
}

std::optional<v1::Action> UnitClock::RunOne(Worker& worker) const {
  Lane& lane = *std::min_element(worker.lanes.begin(), worker.lanes.end(), [this](const Lane& a, const Lane& b) {
    return a.Start(num_micro_batches_) < b.Start(num_micro_batches_);
  });
  const bool has_memory = lane.kind != v1::ACTION_KIND_FORWARD || worker.num_held < max_held_;
  if (has_memory && lane.next_micro_batch < NumInputs(lane)) return RunLane(worker, lane);
  if (worker.pending_weights.empty()) return std::nullopt;
  v1::Action action = worker.pending_weights.front();
  worker.pending_weights.pop();
  --worker.num_held;
  return action;
}

uint32_t UnitClock::NumInputs(const Lane& lane) const {
  if (lane.kind == v1::ACTION_KIND_FORWARD) return lane.stage == 0 ? num_micro_batches_ : num_forwards_[lane.stage - 1];
  return lane.stage + 1 == num_forwards_.size() ? num_forwards_[lane.stage] : num_gradients_[lane.stage + 1];
}

v1::Action UnitClock::RunLane(Worker& worker, Lane& lane) {
  v1::Action action;
  action.set_kind(lane.kind);
  action.set_stage(lane.stage);
  action.set_micro_batch(lane.next_micro_batch++);
  if (lane.kind == v1::ACTION_KIND_FORWARD) {
    ++worker.num_held;
  } else {
    worker.pending_weights.push(action);
    worker.pending_weights.back().set_kind(v1::ACTION_KIND_BACKWARD_WEIGHT);
  }
  return action;
}

}  // namespace

absl::StatusOr<v1::ComputeTable> VHalfSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  UnitClock clock(problem, table);
  while (clock.Step()) {
  }
  // Memory never stops a worker for good: whatever it waits for, it holds a W that frees some.
  for (const v1::WorkerActions& row : table.workers()) {
    STAGECOACH_CHECK(static_cast<uint64_t>(row.actions_size()) == uint64_t{kInterval} * problem.num_micro_batches);
  }
  return table;
}

}  // namespace stagecoach
