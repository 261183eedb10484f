#include "coordinator/plan/plan_advice.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/status_macros.h"
#include "coordinator/plan/cost_model.h"
#include "coordinator/program/simulator.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

// The same layers are recomputed, wherever they are.
Partition WithStages(const Partition& partition, const StagePartition& stages) {
  Partition moved{.stages = stages, .recomputed_layers = std::vector<std::vector<uint32_t>>(stages.size())};
  for (const std::vector<uint32_t>& layers : partition.recomputed_layers) {
    for (const uint32_t layer : layers) {
      const auto holds = [layer](const LayerRange& stage) { return stage.first <= layer && layer <= stage.last; };
      const auto stage = std::find_if(stages.begin(), stages.end(), holds);
      moved.recomputed_layers[static_cast<size_t>(stage - stages.begin())].push_back(layer);
    }
  }
  return moved;
}

class Advisor {
 public:
  explicit Advisor(const PlannedJob& job) : job_(job), problem_(job.cut.schedule_problem) {}

  PlanAdvice Advise() {
    PlanAdvice advice;
    advice.step_seconds = StepSeconds(job_.cut.table, problem_).value_or(0);
    for (uint32_t stage = 0; stage + 1 < stages().size(); ++stage) {
      Consider(stages()[stage].last, stage, stage + 1, advice);
      Consider(stages()[stage + 1].first, stage + 1, stage, advice);
    }
    AddOneMore(advice);
    return advice;
  }

 private:
  const StagePartition& stages() const { return job_.cut.partition.stages; }
  bool IsBlock(uint32_t layer) const { return job_.cut.problem.layers[layer].is_block; }
  uint32_t NumBlocks(const LayerRange& stage) const {
    uint32_t num_blocks = 0;
    for (uint32_t layer = stage.first; layer <= stage.last; ++layer) num_blocks += IsBlock(layer) ? 1 : 0;
    return num_blocks;
  }

  static std::optional<double> StepSeconds(const v1::ComputeTable& table, const ScheduleProblem& problem) {
    const absl::StatusOr<Timeline> timeline = Simulate(table, problem);
    if (!timeline.ok()) return std::nullopt;
    return timeline->makespan;
  }

  // The plan's schedule for other stages or more micro-batches.
  absl::StatusOr<v1::ComputeTable> TableOf(const ScheduleProblem& problem, const std::vector<bool>& recomputes,
                                           const StagePartition& stages) const {
    STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(job_.plan.schedule()));
    STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, BuildRecomputing(*schedule, problem, recomputes));
    return WithoutFrozen(table, BackwardOfStages(job_.graph, stages));
  }

  // The same order, unless other stages have something to train.
  absl::StatusOr<v1::ComputeTable> TableOfMoved(const ScheduleProblem& problem, const Partition& moved) const {
    if (BackwardOfStages(job_.graph, moved.stages) == BackwardOfStages(job_.graph, stages())) return job_.cut.table;
    if (job_.order.has_value()) return absl::NotFoundError("another search would be another order");
    return TableOf(problem, RecomputingStages(moved), moved.stages);
  }

  // Of the first or last layer of a stage to the one before or behind.
  void Consider(uint32_t layer, uint32_t from, uint32_t to, PlanAdvice& advice) const {
    if (!IsBlock(layer) || NumBlocks(stages()[from]) < 2) return;
    StagePartition moved = stages();
    if (from < to) {
      moved[from].last = layer - 1;
      moved[to].first = layer;
    } else {
      moved[from].first = layer + 1;
      moved[to].last = layer;
    }
    ScheduleProblem problem = problem_;
    const Partition partition = WithStages(job_.cut.partition, moved);
    problem.cost_of_stage = StageCosts(job_.cut.problem, partition);
    problem.skip_edges = SkipCosts(job_.graph, moved, job_.cut.hop_bytes_per_second);
    const absl::StatusOr<v1::ComputeTable> table = TableOfMoved(problem, partition);
    if (!table.ok()) {
      advice.some_moves_unknown = true;
      return;
    }
    const std::optional<double> seconds = StepSeconds(*table, problem);
    if (!seconds.has_value() || (advice.best_move.has_value() && advice.best_move->step_seconds <= *seconds)) return;
    advice.best_move = BlockMove{layer, from, to, *seconds};
  }

  void AddOneMore(PlanAdvice& advice) const {
    if (job_.order.has_value()) return;  // another search would say as much about searching as about micro-batches
    ScheduleProblem more = problem_;
    ++more.num_micro_batches;
    const absl::StatusOr<v1::ComputeTable> table = TableOf(more, RecomputingStages(job_.cut.table), stages());
    if (!table.ok()) return;
    const absl::StatusOr<Timeline> timeline = Simulate(*table, more);
    if (!timeline.ok()) return;
    advice.step_seconds_with_one_more = timeline->makespan;
    advice.bubble_ratio_with_one_more = timeline->bubble_ratio_span;
  }

  const PlannedJob& job_;
  const ScheduleProblem& problem_;
};

}  // namespace

PlanAdvice AdviseOn(const PlannedJob& job) { return Advisor(job).Advise(); }

}  // namespace stagecoach
