#include "coordinator/jobs/replanning.h"

#include <algorithm>

#include "common/status_macros.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {

absl::StatusOr<v1::JobSpec> SpecOfSameCut(const v1::JobSpec& spec, const v1::Plan& plan) {
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ModelGraph graph, BuildModelGraph(spec));
  v1::JobSpec same = spec;
  v1::ParallelismSpec& parallelism = *same.mutable_parallelism();
  uint32_t num_workers = 0;
  for (const v1::StagePlan& stage : plan.stages()) num_workers = std::max(num_workers, stage.worker_rank() + 1);
  parallelism.set_pipeline_parallel_degree(num_workers);
  parallelism.set_virtual_stages(static_cast<uint32_t>(plan.stages_size()) / num_workers);
  parallelism.set_schedule(plan.schedule());
  parallelism.mutable_partition()->set_kind(v1::PartitionSpec::KIND_LAYERS);
  parallelism.mutable_partition()->clear_num_blocks();
  for (const v1::StagePlan& stage : plan.stages()) {
    uint32_t blocks = 0;
    for (int layer = 0; layer < graph.layers_size(); ++layer) {
      const auto index = static_cast<uint32_t>(layer);
      const bool is_in_stage = stage.first_layer() <= index && index <= stage.last_layer();
      if (is_in_stage && graph.layers(layer).kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK) ++blocks;
    }
    parallelism.mutable_partition()->add_num_blocks(blocks);
  }
  return same;
}

bool IsSameCut(const v1::Plan& a, const v1::Plan& b) {
  if (a.schedule() != b.schedule() || a.num_micro_batches() != b.num_micro_batches()) return false;
  return std::equal(a.stages().begin(), a.stages().end(), b.stages().begin(), b.stages().end(),
                    [](const v1::StagePlan& one, const v1::StagePlan& other) {
                      return one.worker_rank() == other.worker_rank() && one.first_layer() == other.first_layer() &&
                             one.last_layer() == other.last_layer();
                    });
}

}  // namespace stagecoach
