#include "coordinator/plan/cost_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "common/quoted.h"
#include "common/skip_connections.h"
#include "common/snapshots.h"
#include "coordinator/plan/layer_loads.h"
#include "coordinator/program/tied_tensor.h"

namespace stagecoach {
namespace {

// Of a model's FLOPs, for what was measured to tell the rate of the rest.
constexpr double kLeastShare = 0.5;

uint64_t OptimizerBytesPerElement(const v1::OptimizerSpec& optimizer) {
  constexpr uint64_t kMomentBytes = 4;
  if (optimizer.name() == "adamw") return 2 * kMomentBytes;
  return optimizer.momentum() > 0 ? kMomentBytes : 0;
}

// What frozen layers leave of what was measured, as BuildModelGraph leaves it of FLOPs: a layer is measured whole.
LayerSeconds Pruned(const v1::ModelGraph& graph, int layer, LayerSeconds seconds) {
  const v1::LayerSpec& spec = graph.layers(layer);
  const LayerRole role = RoleOf(graph, static_cast<uint32_t>(layer));
  if (spec.frozen()) seconds.backward_weight = 0;
  if (role == LayerRole::kForwardOnly) seconds.backward_input = 0;
  if (role != LayerRole::kLowestTrained || layer == 0) return seconds;
  // The head makes the gradient of its input in F, which is a half of it.
  if (!HasBackwardInput(spec, role)) seconds.backward_input = 0;
  if (spec.kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD) seconds.forward /= 2;
  return seconds;
}

uint32_t RankOf(const PartitionProblem& problem, size_t stage) {
  return WorkerOfStage(problem.placement, static_cast<uint32_t>(problem.workers.size()), static_cast<uint32_t>(stage));
}

}  // namespace

absl::StatusOr<RecomputationChoice> RecomputationOf(const v1::ParallelismSpec& parallelism) {
  const std::string& word = parallelism.activation_checkpointing();
  if (word.empty() || word == "none") return RecomputationChoice::kNone;
  if (word == "selective") return RecomputationChoice::kSelective;
  if (word == "full") return RecomputationChoice::kFull;
  return absl::InvalidArgumentError(
      absl::StrCat("parallelism.activation_checkpointing is ", Quoted(word), "; it is none, selective or full"));
}

double RecomputeSeconds(const v1::ModelGraph& graph, const v1::LayerSpec& block, double forward_seconds) {
  const auto size = [&block](const char* name) {
    const auto found = block.sizes().find(name);
    return found == block.sizes().end() ? 0 : static_cast<double>(found->second);
  };
  const double rows = static_cast<double>(graph.micro_batch_size()) * static_cast<double>(graph.seq_len());
  const double last_product = 2 * rows * size("intermediate_size") * size("hidden_size");
  const double forward = block.cost().forward_flops();
  return forward > last_product ? forward_seconds * (1 - last_product / forward) : forward_seconds;
}

std::vector<LayerSeconds> AnalyticSeconds(const v1::ModelGraph& graph, const WorkerProfile& worker) {
  std::vector<LayerSeconds> seconds;
  // A pass that does nothing, as the head's I, is not made.
  const auto time = [&worker](double flops) {
    return flops > 0 ? worker.seconds_per_call + flops / worker.flops_per_second : 0;
  };
  for (const v1::LayerSpec& layer : graph.layers()) {
    const v1::LayerCost& cost = layer.cost();
    seconds.push_back(
        {time(cost.forward_flops()), time(cost.backward_input_flops()), time(cost.backward_weight_flops())});
  }
  return seconds;
}

ModelSeconds KnownSeconds(const v1::ModelGraph& graph, const WorkerProfile& worker) {
  ModelSeconds seconds{.layers = AnalyticSeconds(graph, worker), .all_measured = worker.measured != nullptr};
  if (worker.measured == nullptr) return seconds;
  std::vector<std::optional<LayerSeconds>> measured;
  double analytic_sum = 0;  // of those measured
  double measured_sum = 0;
  double all_sum = 0;
  for (int i = 0; i < graph.layers_size(); ++i) {
    const std::string shape = LayerShape(graph.layers(i), graph.seq_len());
    measured.push_back(worker.measured->Estimate(shape, graph.micro_batch_size()));
    if (measured.back().has_value()) measured.back() = Pruned(graph, i, *measured.back());
    const double analytic = seconds.layers[static_cast<size_t>(i)].total();
    all_sum += analytic;
    if (!measured.back().has_value()) continue;
    analytic_sum += analytic;
    measured_sum += measured.back()->total();
  }
  const double scale = measured_sum > 0 && analytic_sum > kLeastShare * all_sum ? measured_sum / analytic_sum : 1;
  for (size_t i = 0; i < measured.size(); ++i) {
    LayerSeconds& layer = seconds.layers[i];
    seconds.all_measured = seconds.all_measured && measured[i].has_value();
    layer = measured[i].value_or(
        LayerSeconds{layer.forward * scale, layer.backward_input * scale, layer.backward_weight * scale});
  }
  return seconds;
}

StateOptions StateOptionsOf(const v1::JobSpec& spec) {
  return {.optimizer_bytes_per_element = OptimizerBytesPerElement(spec.optimizer()),
          .takes_snapshots = TakesSnapshots(spec.checkpoint())};
}

PartitionProblem PartitionProblemOf(const v1::ModelGraph& graph, const std::vector<LayerSeconds>& seconds,
                                    RecomputationChoice recomputation, const StateOptions& state,
                                    const std::vector<WorkerProfile>& workers) {
  PartitionProblem problem{.layers = LayerLoadsOf(graph, state),
                           .workers = {},
                           .load_bytes = LoadBytesOf(graph),
                           .tie = TiedLayersOf(graph, state),
                           .skips = SkipLoadsOf(graph)};
  for (size_t layer = 0; layer < seconds.size(); ++layer) {
    problem.layers[layer].forward_seconds = seconds[layer].forward;
    problem.layers[layer].backward_input_seconds = seconds[layer].backward_input;
    problem.layers[layer].backward_weight_seconds = seconds[layer].backward_weight;
    if (recomputation == RecomputationChoice::kNone || !problem.layers[layer].is_block) continue;
    if (RoleOf(graph, static_cast<uint32_t>(layer)) == LayerRole::kForwardOnly) continue;
    problem.layers[layer].recompute_seconds =
        RecomputeSeconds(graph, graph.layers(static_cast<int>(layer)), seconds[layer].forward);
    problem.layers[layer].is_always_recomputed = recomputation == RecomputationChoice::kFull;
  }
  for (const WorkerProfile& worker : workers) {
    WorkerCapacity& capacity = problem.workers.emplace_back();
    capacity.speed = worker.flops_per_second / workers.front().flops_per_second;
    if (worker.memory_bytes != 0) capacity.memory_bytes = worker.memory_bytes;
  }
  return problem;
}

std::vector<StageBackward> BackwardOfStages(const v1::ModelGraph& graph, const StagePartition& stages) {
  std::vector<StageBackward> backward;
  for (const LayerRange& stage : stages) backward.push_back(BackwardOfStage(graph, stage.first, stage.last));
  return backward;
}

std::vector<StageCost> StageCosts(const PartitionProblem& problem, const Partition& partition) {
  std::vector<StageCost> costs;
  for (size_t stage = 0; stage < partition.stages.size(); ++stage) {
    StageCost cost{0, 0, 0, 0};
    for (uint32_t layer = partition.stages[stage].first; layer <= partition.stages[stage].last; ++layer) {
      cost.forward += problem.layers[layer].forward_seconds;
      cost.backward_input += problem.layers[layer].backward_input_seconds;
      cost.backward_weight += problem.layers[layer].backward_weight_seconds;
    }
    for (const uint32_t layer : partition.recomputed_layers[stage]) {
      cost.recompute += problem.layers[layer].recompute_seconds;
    }
    const double speed = problem.workers[RankOf(problem, stage)].speed;
    costs.push_back(
        {cost.forward / speed, cost.backward_input / speed, cost.backward_weight / speed, cost.recompute / speed});
  }
  return costs;
}

std::vector<SkipCost> SkipCosts(const v1::ModelGraph& graph, const StagePartition& stages, double bytes_per_second) {
  std::vector<SkipCost> costs;
  if (graph.skip_connections().empty()) return costs;
  v1::Plan plan;
  for (const LayerRange& stage : stages) {
    v1::StagePlan& added = *plan.add_stages();
    added.set_first_layer(stage.first);
    added.set_last_layer(stage.last);
  }
  for (const SkipEdge& edge : SkipEdgesOf(graph, plan, /*trains=*/true)) {
    if (edge.is_gradient) {
      // Activations come before gradients. Where only some of the connections have one, a transfer is less.
      const auto down = std::find_if(costs.begin(), costs.end(), [&edge](const SkipCost& cost) {
        return cost.from_stage == edge.to_stage && cost.to_stage == edge.from_stage;
      });
      down->has_gradient = true;
      continue;
    }
    uint64_t bytes = 0;
    for (const uint32_t index : edge.connections) {
      const uint32_t from_layer = graph.skip_connections(static_cast<int>(index)).from_layer();
      bytes += AlignUp(graph.layers(static_cast<int>(from_layer)).cost().output_bytes());
    }
    costs.push_back({edge.from_stage, edge.to_stage, static_cast<double>(bytes) / bytes_per_second, false});
  }
  return costs;
}

double UpdateSeconds(const v1::ModelGraph& graph, const StateOptions& state, const PartitionProblem& problem,
                     const StagePartition& stages, const std::vector<WorkerProfile>& workers) {
  // Parameters and moments are read and written, gradients read; of frozen layers none of them.
  const uint64_t bytes_per_element = 2 * (kParameterBytes + state.optimizer_bytes_per_element) + kParameterBytes;
  std::vector<double> seconds(workers.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const uint64_t elements = ElementsOfStage(graph, stages[stage].first, stages[stage].last).trained_values;
    const uint32_t rank = RankOf(problem, stage);
    seconds[rank] += static_cast<double>(elements * bytes_per_element) / workers[rank].update_bytes_per_second;
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace stagecoach
