#include "worker/registry/model/model_registry.h"

#include <memory>

#include "worker/data/text_batch_source.h"
#include "worker/model/layered_stage.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

void UseModels(AgentOptions& options) {
  options.batch_source_factory = [](const v1::JobSpec& spec,
                                    FileSystem& files) -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    return TextBatchSource::Create(spec.data(), spec.training().seq_len(), files);
  };
  options.stage_state_factory = StageState::Create;
  options.stage_factory = [](Device& device, const v1::JobSpec& spec, const v1::ModelGraph& graph, LayerIndex first,
                             LayerIndex last, const StageState& state) -> absl::StatusOr<std::unique_ptr<Stage>> {
    return LayeredStage::Create(device, spec, graph, first, last, state);
  };
}

}  // namespace stagecoach
