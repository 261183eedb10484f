#include "worker/model/layer_norm_layer.h"

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "worker/model/layer_spec_reader.h"
#include "worker/model/region_carver.h"

namespace stagecoach {
namespace {

Tensor MeanAndRstd(const Tensor& input, const LayerMemory& memory) {
  return RegionCarver(memory.shared).Take(input.dtype, {input.rows(), 2});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> LayerNormLayer::Create(const v1::LayerSpec& spec, const LayerContext& context) {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t hidden, ReadSize(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const double epsilon, ReadLayerNormEpsilon(spec));
  STAGECOACH_RETURN_IF_ERROR(CheckParameters(spec, context.parameters, {{hidden}, {hidden}}));
  return absl::WrapUnique<Layer>(new LayerNormLayer(context, epsilon));
}

LayerNormLayer::LayerNormLayer(const LayerContext& context, double epsilon)
    : device_(context.device), gamma_(context.parameters[0]), beta_(context.parameters[1]), epsilon_(epsilon) {}

absl::Status LayerNormLayer::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& /*labels*/,
                                     const Tensor& output, const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  return device_.operations().norm().EnqueueForward(*micro_batch.stream, input.AsMatrix(), gamma_.value, beta_.value,
                                                    epsilon_, output.AsMatrix(), MeanAndRstd(input, memory));
}

absl::Status LayerNormLayer::BackwardInput(const MicroBatch& micro_batch, const Tensor& input,
                                           const Tensor& output_gradient, const Tensor& input_gradient,
                                           const LayerMemory& memory) {
  if (micro_batch.samples == 0 || input_gradient.empty()) return absl::OkStatus();
  return device_.operations().norm().EnqueueBackwardInput(
      *micro_batch.stream, input.AsMatrix(), MeanAndRstd(input, memory), gamma_.value, output_gradient.AsMatrix(),
      /*accumulate=*/false, input_gradient.AsMatrix());
}

absl::Status LayerNormLayer::BackwardWeight(const MicroBatch& micro_batch, const Tensor& input,
                                            const Tensor& /*labels*/, const Tensor& output_gradient,
                                            const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  return device_.operations().norm().EnqueueBackwardWeight(*micro_batch.stream, input.AsMatrix(),
                                                           MeanAndRstd(input, memory), output_gradient.AsMatrix(),
                                                           gamma_.gradient, beta_.gradient);
}

}  // namespace stagecoach
