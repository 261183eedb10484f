#include "coordinator/program/testing/small_pipeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/schedule/schedule.h"

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

absl::Status SmallPipeline::Verified(SendSemantics sends) const {
  return Verify({.programs = programs, .graph = graph, .plan = plan, .memory_limit_bytes = {}, .sends = sends});
}

SmallPipeline MakeSmallPipeline(const std::string& schedule, const SmallPipelineOptions& options) {
  SmallPipeline pipeline;
  const uint32_t p = options.num_stages;
  pipeline.graph = SmallGraph(p, options.tied);
  ScheduleProblem problem;
  problem.num_workers = p;
  problem.num_micro_batches = options.num_micro_batches;
  absl::StatusOr<v1::ComputeTable> table = (*FindSchedule(schedule))->Build(problem);
  STAGECOACH_CHECK(table.ok());
  pipeline.table = *std::move(table);
  pipeline.plan.set_schedule(schedule);
  pipeline.plan.set_num_micro_batches(options.num_micro_batches);
  for (uint32_t stage = 0; stage < p; ++stage) {
    v1::StagePlan* stage_plan = pipeline.plan.add_stages();
    stage_plan->set_worker_rank(stage);
    stage_plan->set_first_layer(stage == 0 ? 0 : stage + 1);
    stage_plan->set_last_layer(stage + 1 == p ? p + 2 : stage + 1);
  }
  absl::StatusOr<std::vector<v1::StageProgram>> programs =
      Lower(pipeline.table, pipeline.graph, pipeline.plan, {.credit_window = options.credit_window});
  STAGECOACH_CHECK(programs.ok());
  pipeline.programs = *std::move(programs);
  constexpr uint64_t kAdamBytesPerElement = 8;
  FillStageMemory(pipeline.graph, pipeline.programs, {}, {.optimizer_bytes_per_element = kAdamBytesPerElement},
                  pipeline.plan);
  return pipeline;
}

}  // namespace stagecoach::testing
