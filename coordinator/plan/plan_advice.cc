#include "coordinator/plan/plan_advice.h"

#include <algorithm>
#include <cstddef>

#include "coordinator/program/simulator.h"
#include "coordinator/schedule/schedule.h"

namespace stagecoach {
namespace {

StageCost FlopsOf(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer) {
  StageCost flops{0, 0, 0};
  for (uint32_t layer = first_layer; layer <= last_layer; ++layer) {
    const v1::LayerCost& cost = graph.layers(static_cast<int>(layer)).cost();
    flops.forward += cost.forward_flops();
    flops.backward_input += cost.backward_input_flops();
    flops.backward_weight += cost.backward_weight_flops();
  }
  return flops;
}

ScheduleProblem ProblemOf(const PlannedJob& job) {
  ScheduleProblem problem;
  problem.num_workers = static_cast<uint32_t>(job.table.workers_size());
  problem.num_chunks = job.table.num_stages() / problem.num_workers;
  problem.num_micro_batches = job.plan.num_micro_batches();
  for (const v1::StagePlan& stage : job.plan.stages()) {
    problem.cost_of_stage.push_back(
        {stage.forward_seconds(), stage.backward_input_seconds(), stage.backward_weight_seconds()});
  }
  return problem;
}

// `seconds` for `flops`, as they are spent on `on_flops`.
double Scaled(double seconds, double flops, double on_flops) { return flops > 0 ? seconds * on_flops / flops : 0; }

StageCost CostOnStage(const StageCost& stage_seconds, const StageCost& stage_flops, const StageCost& layer_flops) {
  return {Scaled(stage_seconds.forward, stage_flops.forward, layer_flops.forward),
          Scaled(stage_seconds.backward_input, stage_flops.backward_input, layer_flops.backward_input),
          Scaled(stage_seconds.backward_weight, stage_flops.backward_weight, layer_flops.backward_weight)};
}

void Add(double sign, const StageCost& more, StageCost& cost) {
  cost.forward = std::max(0.0, cost.forward + sign * more.forward);
  cost.backward_input = std::max(0.0, cost.backward_input + sign * more.backward_input);
  cost.backward_weight = std::max(0.0, cost.backward_weight + sign * more.backward_weight);
}

class Advisor {
 public:
  explicit Advisor(const PlannedJob& job) : job_(job), problem_(ProblemOf(job)) {}

  PlanAdvice Advise() {
    PlanAdvice advice;
    advice.step_seconds = StepSeconds(problem_).value_or(0);
    for (uint32_t stage = 0; stage + 1 < problem_.cost_of_stage.size(); ++stage) {
      Consider(StageAt(stage).last_layer(), stage, stage + 1, advice);
      Consider(StageAt(stage + 1).first_layer(), stage + 1, stage, advice);
    }
    AddOneMore(advice);
    return advice;
  }

 private:
  const v1::StagePlan& StageAt(uint32_t stage) const { return job_.plan.stages(static_cast<int>(stage)); }
  bool IsBlock(uint32_t layer) const {
    return job_.graph.layers(static_cast<int>(layer)).kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
  }
  uint32_t NumBlocks(uint32_t stage) const {
    uint32_t num_blocks = 0;
    for (uint32_t layer = StageAt(stage).first_layer(); layer <= StageAt(stage).last_layer(); ++layer) {
      num_blocks += IsBlock(layer) ? 1 : 0;
    }
    return num_blocks;
  }

  std::optional<double> StepSeconds(const ScheduleProblem& problem) const {
    const absl::StatusOr<Timeline> timeline = Simulate(job_.table, problem);
    if (!timeline.ok()) return std::nullopt;
    return timeline->makespan;
  }

  // Of a stage, for a layer: what it takes there.
  StageCost CostOf(uint32_t layer, uint32_t stage) const {
    const StageCost stage_flops = FlopsOf(job_.graph, StageAt(stage).first_layer(), StageAt(stage).last_layer());
    return CostOnStage(problem_.cost_of_stage[stage], stage_flops, FlopsOf(job_.graph, layer, layer));
  }

  void Consider(uint32_t layer, uint32_t from, uint32_t to, PlanAdvice& advice) const {
    if (!IsBlock(layer) || NumBlocks(from) < 2) return;
    ScheduleProblem moved = problem_;
    Add(-1, CostOf(layer, from), moved.cost_of_stage[from]);
    Add(1, CostOf(layer, to), moved.cost_of_stage[to]);
    const std::optional<double> seconds = StepSeconds(moved);
    if (!seconds.has_value() || (advice.best_move.has_value() && advice.best_move->step_seconds <= *seconds)) return;
    advice.best_move = BlockMove{layer, from, to, *seconds};
  }

  void AddOneMore(PlanAdvice& advice) const {
    const absl::StatusOr<const Schedule*> schedule = FindSchedule(job_.plan.schedule());
    if (!schedule.ok()) return;
    ScheduleProblem more = problem_;
    ++more.num_micro_batches;
    const absl::StatusOr<v1::ComputeTable> table = (*schedule)->Build(more);
    if (!table.ok()) return;
    const absl::StatusOr<Timeline> timeline = Simulate(*table, more);
    if (!timeline.ok()) return;
    advice.step_seconds_with_one_more = timeline->makespan;
    advice.bubble_ratio_with_one_more = timeline->bubble_ratio_span;
  }

  const PlannedJob& job_;
  const ScheduleProblem problem_;
};

}  // namespace

PlanAdvice AdviseOn(const PlannedJob& job) { return Advisor(job).Advise(); }

}  // namespace stagecoach
