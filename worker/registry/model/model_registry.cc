#include "worker/registry/model/model_registry.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/data/text_batch_source.h"
#include "worker/model/layered_stage.h"
#include "worker/model/simulated_stage.h"
#include "worker/model/stage_state.h"
#include "worker/model/stage_timer.h"
#include "worker/profile/device_layer_profiler.h"
#include "worker/profile/simulated_layer_profiler.h"

namespace stagecoach {

void UseModels(AgentOptions& options) {
  options.batch_source_factory = [](const v1::JobSpec& spec,
                                    FileSystem& files) -> absl::StatusOr<std::unique_ptr<BatchSource>> {
    return TextBatchSource::Create(spec.data(), spec.training().seq_len(), files);
  };
  options.stage_state_factory = StageState::Create;
  options.stage_factory = [](Device& device, const v1::JobSpec& spec, const v1::ModelGraph& graph,
                             const StageExtent& extent,
                             const StageState& state) -> absl::StatusOr<std::unique_ptr<Stage>> {
    return LayeredStage::Create(device, spec, graph, extent, state);
  };
  options.layer_profiler_factory = [](const ProfilerContext& context) -> std::unique_ptr<LayerProfiler> {
    return std::make_unique<DeviceLayerProfiler>(context);
  };
}

void UseSimulatedStages(AgentOptions& options, const SimulatedCosts& costs) {
  options.device = std::string(kSimulatedDevice);
  options.numerics_class = absl::StrCat(kSimulatedDevice, "/", options.numerics_class);
  options.stage_factory = [costs](Device& device, const v1::JobSpec& /*spec*/, const v1::ModelGraph& graph,
                                  const StageExtent& extent,
                                  const StageState& /*state*/) -> absl::StatusOr<std::unique_ptr<Stage>> {
    spdlog::warn(
        "layers {} to {} are simulated and compute nothing: what this job makes is no trained model. A block takes {} "
        "s "
        "forward, {} s backward for its input and {} s for its weights",
        extent.first_layer, extent.last_layer, costs.forward, costs.backward_input, costs.backward_weight);
    return SimulatedStage::Create(costs, StageTimer::Real(), device, graph, extent);
  };
  options.layer_profiler_factory = [costs](const ProfilerContext& /*context*/) -> std::unique_ptr<LayerProfiler> {
    return std::make_unique<SimulatedLayerProfiler>(costs);
  };
}

}  // namespace stagecoach
