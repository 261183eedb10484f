#ifndef STAGECOACH_WORKER_MODEL_TOKEN_EMBEDDING_LAYER_H_
#define STAGECOACH_WORKER_MODEL_TOKEN_EMBEDDING_LAYER_H_

#include <memory>

#include "worker/model/layer.h"
#include "worker/model/layer_dropout.h"
#include "worker/model/layer_factory.h"

namespace stagecoach {

// Tokens to activations: the token's row plus the position's, then dropout. The first layer, so it has no input
// gradient. Executor's thread only.
class TokenEmbeddingLayer : public Layer {
 public:
  static absl::StatusOr<std::unique_ptr<Layer>> Create(const v1::LayerSpec& spec, const LayerContext& context);

  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const LayerMemory& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& input_gradient, const LayerMemory& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                              const Tensor& output_gradient, const LayerMemory& memory) override;

 private:
  TokenEmbeddingLayer(const LayerContext& context, double dropout_probability);

  Device& device_;
  const Parameter table_;      // [vocabulary, hidden]
  const Parameter positions_;  // [positions, hidden]
  const LayerDropout dropout_;
  const double dropout_probability_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_TOKEN_EMBEDDING_LAYER_H_
