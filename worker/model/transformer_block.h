#ifndef STAGECOACH_WORKER_MODEL_TRANSFORMER_BLOCK_H_
#define STAGECOACH_WORKER_MODEL_TRANSFORMER_BLOCK_H_

#include <cstdint>
#include <memory>

#include "worker/model/layer.h"
#include "worker/model/layer_dropout.h"
#include "worker/model/layer_factory.h"
#include "worker/model/linear.h"

namespace stagecoach {

// GPT-2's block, with the norms in front:
//   residual = x        + dropout(c_proj(attention(c_attn(ln_1(x)))))
//   y        = residual + dropout(c_proj(gelu(c_fc(ln_2(residual)))))
// Attention drops probabilities too. Without an input gradient, below which nothing is trained, I makes what W needs
// and has the residual's gradient in scratch. Executor's thread only.
class TransformerBlock : public Layer {
 public:
  static absl::StatusOr<std::unique_ptr<Layer>> Create(const v1::LayerSpec& spec, const LayerContext& context);

  absl::Status Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels, const Tensor& output,
                       const LayerMemory& memory) override;
  absl::Status Recompute(const MicroBatch& micro_batch, const Tensor& input, const LayerMemory& memory) override;
  absl::Status BackwardInput(const MicroBatch& micro_batch, const Tensor& input, const Tensor& output_gradient,
                             const Tensor& input_gradient, const LayerMemory& memory) override;
  absl::Status BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                              const Tensor& output_gradient, const LayerMemory& memory) override;

 private:
  struct Shape {
    int64_t hidden, heads, intermediate;
    double epsilon, attention_dropout, residual_dropout;
  };
  struct Norm {
    Parameter gamma, beta;
  };
  struct Shared;
  struct Saved;
  struct Pending;
  struct BackwardCall;

  TransformerBlock(const LayerContext& context, const Shape& shape);

  Attention AttentionOf(const MicroBatch& micro_batch, const Tensor& input, const Shared& shared,
                        const Saved& saved) const;
  // From the output gradient: what mlp.c_proj's output gets, the gradient itself or a copy in scratch.
  absl::StatusOr<Tensor> EnqueueMlpProjectionGradient(const MicroBatch& micro_batch, const Tensor& output_gradient,
                                                      const LayerMemory& memory) const;
  absl::Status ForwardAttention(const MicroBatch& micro_batch, const Tensor& input, const Shared& shared,
                                const Saved& saved) const;
  // What the backward needs; the output is left to ForwardProjection.
  absl::Status ForwardMlp(const MicroBatch& micro_batch, const Shared& shared, const Saved& saved) const;
  absl::Status ForwardProjection(const MicroBatch& micro_batch, const Tensor& output, const Shared& shared) const;
  // Where the residual's gradient goes: to where the input's will be, or behind the rest of scratch.
  absl::StatusOr<Tensor> ResidualGradient(const Tensor& input, const Tensor& input_gradient,
                                          const LayerMemory& memory) const;
  // Writes the residual's gradient.
  absl::Status BackwardMlp(const BackwardCall& call) const;
  // Adds the rest of the input's gradient.
  absl::Status BackwardAttention(const BackwardCall& call) const;

  Device& device_;
  const Shape shape_;
  const LayerDropout dropout_;
  const Norm ln_1_;
  const Linear attention_in_;   // attn.c_attn
  const Linear attention_out_;  // attn.c_proj
  const Norm ln_2_;
  const Linear mlp_in_;   // mlp.c_fc
  const Linear mlp_out_;  // mlp.c_proj
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_TRANSFORMER_BLOCK_H_
