#include "coordinator/program/testing/small_pipeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/frozen_layers.h"
#include "common/memory_layout.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/schedule/compute_table.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/recomputing_table.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"

namespace stagecoach::testing {
namespace {

constexpr uint64_t kMicroBatchSize = 2;
constexpr uint64_t kSeqLen = 20;
constexpr uint64_t kHidden = 4;

void AddParameter(const std::string& name, const std::vector<uint64_t>& shape, v1::LayerSpec& layer) {
  v1::ParameterSpec* parameter = layer.add_parameters();
  parameter->set_name(name);
  parameter->set_dtype(v1::DTYPE_F32);
  for (const uint64_t extent : shape) parameter->add_shape(extent);
}

v1::LayerSpec& AddLayer(v1::LayerKind kind, const std::string& name, v1::ModelGraph& graph) {
  const auto index = static_cast<uint64_t>(graph.layers_size());
  v1::LayerSpec& layer = *graph.add_layers();
  layer.set_name(name);
  layer.set_kind(kind);
  v1::LayerCost& cost = *layer.mutable_cost();
  cost.set_forward_flops(100);
  cost.set_backward_input_flops(100);
  cost.set_backward_weight_flops(100);
  cost.set_saved_bytes(200 + 64 * index);
  cost.set_shared_bytes(70 + 128 * index);
  cost.set_pending_bytes(130 + 192 * index);
  cost.set_scratch_bytes(50 + 64 * index);
  cost.set_input_bytes(kMicroBatchSize * kSeqLen * kHidden * 4);
  cost.set_output_bytes(cost.input_bytes());
  return layer;
}

}  // namespace

v1::ModelGraph SmallGraph(uint32_t num_blocks, bool tied) {
  v1::ModelGraph graph;
  graph.set_micro_batch_size(kMicroBatchSize);
  graph.set_seq_len(kSeqLen);
  v1::LayerSpec& embedding = AddLayer(v1::LAYER_KIND_TOKEN_EMBEDDING, "transformer.embedding", graph);
  embedding.mutable_cost()->set_input_bytes(kMicroBatchSize * kSeqLen * 4);
  AddParameter("transformer.wte.weight", {16, kHidden}, embedding);
  AddParameter("transformer.wpe.weight", {kSeqLen, kHidden}, embedding);
  for (uint32_t block = 0; block < num_blocks; ++block) {
    const std::string name = absl::StrCat("transformer.h.", block);
    v1::LayerSpec& layer = AddLayer(v1::LAYER_KIND_TRANSFORMER_BLOCK, name, graph);
    AddParameter(absl::StrCat(name, ".attn.c_attn.weight"), {kHidden, 3 * kHidden}, layer);
  }
  AddParameter("transformer.ln_f.weight", {kHidden}, AddLayer(v1::LAYER_KIND_LAYER_NORM, "transformer.ln_f", graph));
  v1::LayerSpec& head = AddLayer(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD, "lm_head", graph);
  head.mutable_cost()->set_output_bytes(sizeof(double));
  AddParameter(tied ? "transformer.wte.weight" : "lm_head.weight", {16, kHidden}, head);
  if (tied) head.mutable_parameters(0)->set_tied_to_layer(0);
  return graph;
}

void Freeze(const std::vector<uint32_t>& layers, v1::ModelGraph& graph) {
  for (const uint32_t layer : layers) graph.mutable_layers(static_cast<int>(layer))->set_frozen(true);
  for (int i = 0; i < graph.layers_size(); ++i) {
    v1::LayerCost& cost = *graph.mutable_layers(i)->mutable_cost();
    const LayerRole role = RoleOf(graph, static_cast<uint32_t>(i));
    if (KeepsOutputGradient(role)) continue;
    cost.set_saved_bytes(role == LayerRole::kPassing ? AlignUp(cost.saved_bytes()) + AlignUp(cost.shared_bytes()) : 0);
    cost.set_shared_bytes(0);
    cost.set_pending_bytes(0);
    cost.set_backward_weight_flops(0);
    if (role == LayerRole::kForwardOnly) cost.set_backward_input_flops(0);
  }
}

void Connect(const std::vector<std::pair<uint32_t, uint32_t>>& layers, v1::ModelGraph& graph) {
  for (const auto& [from, to] : layers) {
    v1::SkipConnection& connection = *graph.add_skip_connections();
    connection.set_from_layer(from);
    connection.set_to_layer(to);
  }
}

absl::Status SmallPipeline::Verified(SendSemantics sends) const {
  return Verify({.programs = programs, .graph = graph, .plan = plan, .memory_limit_bytes = {}, .sends = sends});
}

SmallPipeline MakeSmallPipeline(const std::string& schedule, const SmallPipelineOptions& options) {
  ScheduleProblem problem;
  problem.num_workers = options.num_stages / options.num_chunks;
  problem.num_chunks = options.num_chunks;
  problem.num_micro_batches = options.num_micro_batches;
  const absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  STAGECOACH_CHECK(table.ok());
  return MakeSmallPipeline(*table, options);
}

SmallPipeline MakeSmallPipeline(const v1::ComputeTable& table, const SmallPipelineOptions& options) {
  SmallPipeline pipeline;
  const uint32_t num_stages = table.num_stages();
  pipeline.graph = SmallGraph(num_stages, options.tied);
  Freeze(options.frozen_layers, pipeline.graph);
  Connect(options.skip_connections, pipeline.graph);
  pipeline.table = options.recomputes.empty() ? table : WithRecomputation(table, options.recomputes);
  pipeline.plan.set_schedule(table.schedule());
  pipeline.plan.set_num_micro_batches(table.num_micro_batches());
  const absl::StatusOr<std::vector<uint32_t>> worker_of_stage = WorkersOfStages(table);
  STAGECOACH_CHECK(worker_of_stage.ok());
  std::vector<StageBackward> backward;
  for (uint32_t stage = 0; stage < num_stages; ++stage) {
    v1::StagePlan* stage_plan = pipeline.plan.add_stages();
    stage_plan->set_worker_rank((*worker_of_stage)[stage]);
    stage_plan->set_first_layer(stage == 0 ? 0 : stage + 1);
    stage_plan->set_last_layer(stage + 1 == num_stages ? num_stages + 2 : stage + 1);
    if (!options.recomputes.empty() && options.recomputes[stage]) stage_plan->add_recomputed_layers(stage + 1);
    backward.push_back(BackwardOfStage(pipeline.graph, stage_plan->first_layer(), stage_plan->last_layer()));
  }
  pipeline.table = WithoutFrozen(pipeline.table, backward);
  absl::StatusOr<std::vector<v1::StageProgram>> programs =
      Lower(pipeline.table, pipeline.graph, pipeline.plan, {.credit_window = options.credit_window});
  STAGECOACH_CHECK(programs.ok());
  pipeline.programs = *std::move(programs);
  constexpr uint64_t kAdamBytesPerElement = 8;
  FillStageMemory(pipeline.graph, pipeline.programs, {}, {.optimizer_bytes_per_element = kAdamBytesPerElement},
                  pipeline.plan);
  return pipeline;
}

v1::ComputeTable BreadthFirstTable(const std::vector<uint32_t>& worker_of_stage, uint32_t num_micro_batches) {
  v1::ComputeTable table;
  table.set_schedule("breadth_first");
  table.set_num_stages(static_cast<uint32_t>(worker_of_stage.size()));
  table.set_num_micro_batches(num_micro_batches);
  const auto add_all = [&](v1::ActionKind kind, uint32_t stage) {
    for (uint32_t i = 0; i < num_micro_batches; ++i) {
      while (table.workers_size() <= static_cast<int>(worker_of_stage[stage])) table.add_workers();
      Append(*table.mutable_workers(static_cast<int>(worker_of_stage[stage])), kind, stage, i);
    }
  };
  const auto num_stages = static_cast<uint32_t>(worker_of_stage.size());
  for (uint32_t stage = 0; stage < num_stages; ++stage) add_all(v1::ACTION_KIND_FORWARD, stage);
  for (uint32_t stage = num_stages; stage > 0; --stage) add_all(v1::ACTION_KIND_BACKWARD_INPUT, stage - 1);
  for (uint32_t stage = 0; stage < num_stages; ++stage) add_all(v1::ACTION_KIND_BACKWARD_WEIGHT, stage);
  return table;
}

}  // namespace stagecoach::testing
