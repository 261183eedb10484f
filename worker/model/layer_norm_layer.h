#ifndef STAGECOACH_WORKER_MODEL_LAYER_NORM_LAYER_H_
#define STAGECOACH_WORKER_MODEL_LAYER_NORM_LAYER_H_

#include <memory>

#include "worker/model/layer.h"
#include "worker/model/layer_factory.h"

namespace stagecoach {

// A norm over the hidden dimension, with weight and bias: GPT-2's final one. Executor's thread only.
class LayerNormLayer : public Layer {
 public:
  static absl::StatusOr<std::unique_ptr<Layer>> Create(const v1::LayerSpec& spec, const LayerContext& context);

  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const LayerMemory& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& input_gradient, const LayerMemory& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                              const Tensor& output_gradient, const LayerMemory& memory) override;

 private:
  LayerNormLayer(const LayerContext& context, double epsilon);

  Device& device_;
  const Parameter gamma_;
  const Parameter beta_;
  const double epsilon_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_LAYER_NORM_LAYER_H_
