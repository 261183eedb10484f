#include "worker/model/transformer_block.h"

#include "absl/memory/memory.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"
#include "worker/model/layer_spec_reader.h"
#include "worker/model/region_carver.h"

namespace stagecoach {
namespace {

enum DropoutOperation : uint64_t { kDropAttention = 0, kDropAttentionOutput = 1, kDropMlpOutput = 2 };

}  // namespace

// The regions of common/layer_memory.cc, in their order. rows = samples x seq.

struct TransformerBlock::Shared {
  Shared(const Shape& shape, const Tensor& input, const LayerMemory& memory) {
    const int64_t rows = input.rows();
    RegionCarver region(memory.shared);
    ln_1_mean_rstd = region.Take(input.dtype, {rows, 2});
    ln_1_output = region.Take(input.dtype, {rows, shape.hidden});
    attention_output = region.Take(input.dtype, {rows, shape.hidden});
    residual = region.Take(input.dtype, {input.dims[0], input.dims[1], shape.hidden});
    ln_2_mean_rstd = region.Take(input.dtype, {rows, 2});
    ln_2_output = region.Take(input.dtype, {rows, shape.hidden});
    gelu_output = region.Take(input.dtype, {rows, shape.intermediate});
  }
  Tensor ln_1_mean_rstd, ln_1_output, attention_output, residual, ln_2_mean_rstd, ln_2_output, gelu_output;
};

struct TransformerBlock::Saved {
  Saved(const Shape& shape, const Tensor& input, const LayerMemory& memory) {
    const int64_t samples = input.dims[0], seq = input.dims[1];
    RegionCarver region(memory.saved);
    qkv = region.Take(input.dtype, {samples, seq, 3 * shape.hidden});
    log_sum_exp = region.Take(input.dtype, {samples, shape.heads, seq});
    gelu_input = region.Take(input.dtype, {samples * seq, shape.intermediate});
  }
  Tensor qkv, log_sum_exp, gelu_input;
};

struct TransformerBlock::Pending {
  Pending(const Shape& shape, const Tensor& input, const LayerMemory& memory) {
    const int64_t samples = input.dims[0], seq = input.dims[1], rows = samples * seq;
    RegionCarver region(memory.pending);
    d_gelu_input = region.Take(input.dtype, {rows, shape.intermediate});
    d_ln_2_output = region.Take(input.dtype, {rows, shape.hidden});
    d_attention_projection = region.Take(input.dtype, {samples, seq, shape.hidden});
    d_qkv = region.Take(input.dtype, {samples, seq, 3 * shape.hidden});
    d_ln_1_output = region.Take(input.dtype, {rows, shape.hidden});
  }
  Tensor d_gelu_input, d_ln_2_output, d_attention_projection, d_qkv, d_ln_1_output;
};

struct TransformerBlock::BackwardCall {
  const MicroBatch& micro_batch;
  const Tensor& input;
  const Tensor& output_gradient;
  const Tensor& input_gradient;  // empty: nothing below is trained
  const Tensor d_residual;       // in the place of the input's gradient, when that is wanted
  const LayerMemory& memory;
  const Shared shared;
  const Saved saved;
  const Pending pending;
};

absl::StatusOr<std::unique_ptr<Layer>> TransformerBlock::Create(const v1::LayerSpec& spec,
                                                                const LayerContext& context) {
  Shape shape{};
  STAGECOACH_ASSIGN_OR_RETURN(shape.hidden, ReadSize(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(shape.heads, ReadSize(spec, "num_attention_heads"));
  STAGECOACH_ASSIGN_OR_RETURN(shape.intermediate, ReadSize(spec, "intermediate_size"));
  STAGECOACH_ASSIGN_OR_RETURN(shape.epsilon, ReadLayerNormEpsilon(spec));
  STAGECOACH_ASSIGN_OR_RETURN(shape.attention_dropout, ReadDropoutProbability(spec, "attn_pdrop"));
  STAGECOACH_ASSIGN_OR_RETURN(shape.residual_dropout, ReadDropoutProbability(spec, "resid_pdrop"));
  if (shape.hidden % shape.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("layer ", spec.name(), ": hidden_size ", shape.hidden,
                                                   " is not a multiple of num_attention_heads ", shape.heads));
  }
  const int64_t hidden = shape.hidden, intermediate = shape.intermediate;
  STAGECOACH_RETURN_IF_ERROR(CheckParameters(spec, context.parameters,
                                             {{hidden},
                                              {hidden},
                                              {hidden, 3 * hidden},
                                              {3 * hidden},
                                              {hidden, hidden},
                                              {hidden},
                                              {hidden},
                                              {hidden},
                                              {hidden, intermediate},
                                              {intermediate},
                                              {intermediate, hidden},
                                              {hidden}}));
  return absl::WrapUnique<Layer>(new TransformerBlock(context, shape));
}

TransformerBlock::TransformerBlock(const LayerContext& context, const Shape& shape)
    : device_(context.device),
      shape_(shape),
      dropout_(context.seed, context.index),
      ln_1_{context.parameters[0], context.parameters[1]},
      attention_in_(context.parameters[2], context.parameters[3]),
      attention_out_(context.parameters[4], context.parameters[5]),
      ln_2_{context.parameters[6], context.parameters[7]},
      mlp_in_(context.parameters[8], context.parameters[9]),
      mlp_out_(context.parameters[10], context.parameters[11]) {}

Attention TransformerBlock::AttentionOf(const MicroBatch& micro_batch, const Tensor& input, const Shared& shared,
                                        const Saved& saved) const {
  return {.shape = {.samples = input.dims[0],
                    .seq = input.dims[1],
                    .heads = shape_.heads,
                    .head_size = shape_.hidden / shape_.heads},
          .qkv = saved.qkv,
          .output = shared.attention_output,
          .log_sum_exp = saved.log_sum_exp,
          .dropout = dropout_.Of(micro_batch, shape_.attention_dropout, kDropAttention)};
}

absl::Status TransformerBlock::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& /*labels*/,
                                       const Tensor& output, const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  const Shared shared(shape_, input, memory);
  const Saved saved(shape_, input, memory);
  STAGECOACH_RETURN_IF_ERROR(ForwardAttention(micro_batch, input, shared, saved));
  STAGECOACH_RETURN_IF_ERROR(ForwardMlp(micro_batch, shared, saved));
  return ForwardProjection(micro_batch, output, shared);
}

absl::Status TransformerBlock::Recompute(const MicroBatch& micro_batch, const Tensor& input,
                                         const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  const Shared shared(shape_, input, memory);
  const Saved saved(shape_, input, memory);
  STAGECOACH_RETURN_IF_ERROR(ForwardAttention(micro_batch, input, shared, saved));
  return ForwardMlp(micro_batch, shared, saved);
}

absl::Status TransformerBlock::ForwardAttention(const MicroBatch& micro_batch, const Tensor& input,
                                                const Shared& shared, const Saved& saved) const {
  Stream& stream = *micro_batch.stream;
  TensorOperations& operations = device_.operations();
  MatmulOperations& matmul = operations.matmul();
  STAGECOACH_RETURN_IF_ERROR(operations.norm().EnqueueForward(stream, input.AsMatrix(), ln_1_.gamma.value,
                                                              ln_1_.beta.value, shape_.epsilon, shared.ln_1_output,
                                                              shared.ln_1_mean_rstd));
  STAGECOACH_RETURN_IF_ERROR(attention_in_.EnqueueForward(matmul, stream, shared.ln_1_output, saved.qkv));
  STAGECOACH_RETURN_IF_ERROR(
      operations.attention().EnqueueForward(stream, AttentionOf(micro_batch, input, shared, saved)));
  STAGECOACH_RETURN_IF_ERROR(attention_out_.EnqueueForward(matmul, stream, shared.attention_output, shared.residual));
  const Dropout dropout = dropout_.Of(micro_batch, shape_.residual_dropout, kDropAttentionOutput);
  return operations.elementwise().EnqueueDropoutAdd(stream, shared.residual, dropout, input, shared.residual);
}

absl::Status TransformerBlock::ForwardMlp(const MicroBatch& micro_batch, const Shared& shared,
                                          const Saved& saved) const {
  Stream& stream = *micro_batch.stream;
  TensorOperations& operations = device_.operations();
  MatmulOperations& matmul = operations.matmul();
  STAGECOACH_RETURN_IF_ERROR(operations.norm().EnqueueForward(stream, shared.residual.AsMatrix(), ln_2_.gamma.value,
                                                              ln_2_.beta.value, shape_.epsilon, shared.ln_2_output,
                                                              shared.ln_2_mean_rstd));
  STAGECOACH_RETURN_IF_ERROR(mlp_in_.EnqueueForward(matmul, stream, shared.ln_2_output, saved.gelu_input));
  return operations.elementwise().EnqueueGelu(stream, saved.gelu_input, shared.gelu_output);
}

absl::Status TransformerBlock::ForwardProjection(const MicroBatch& micro_batch, const Tensor& output,
                                                 const Shared& shared) const {
  Stream& stream = *micro_batch.stream;
  TensorOperations& operations = device_.operations();
  STAGECOACH_RETURN_IF_ERROR(mlp_out_.EnqueueForward(operations.matmul(), stream, shared.gelu_output, output));
  const Dropout dropout = dropout_.Of(micro_batch, shape_.residual_dropout, kDropMlpOutput);
  return operations.elementwise().EnqueueDropoutAdd(stream, output, dropout, shared.residual, output);
}

absl::StatusOr<Tensor> TransformerBlock::EnqueueMlpProjectionGradient(const MicroBatch& micro_batch,
                                                                      const Tensor& output_gradient,
                                                                      const LayerMemory& memory) const {
  const Dropout dropout = dropout_.Of(micro_batch, shape_.residual_dropout, kDropMlpOutput);
  if (dropout.probability == 0) return output_gradient;
  const Tensor gradient =
      RegionCarver(memory.scratch)
          .Take(output_gradient.dtype, {output_gradient.dims[0], output_gradient.dims[1], shape_.hidden});
  STAGECOACH_RETURN_IF_ERROR(device_.operations().elementwise().EnqueueDropoutAdd(*micro_batch.stream, output_gradient,
                                                                                  dropout, /*residual=*/{}, gradient));
  return gradient;
}

absl::Status TransformerBlock::BackwardInput(const MicroBatch& micro_batch, const Tensor& input,
                                             const Tensor& output_gradient, const Tensor& input_gradient,
                                             const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(const Tensor d_residual, ResidualGradient(input, input_gradient, memory));
  const BackwardCall call = {micro_batch,
                             input,
                             output_gradient,
                             input_gradient,
                             d_residual,
                             memory,
                             Shared(shape_, input, memory),
                             Saved(shape_, input, memory),
                             Pending(shape_, input, memory)};
  STAGECOACH_RETURN_IF_ERROR(BackwardMlp(call));
  return BackwardAttention(call);
}

absl::StatusOr<Tensor> TransformerBlock::ResidualGradient(const Tensor& input, const Tensor& input_gradient,
                                                          const LayerMemory& memory) const {
  if (!input_gradient.empty()) return input_gradient;
  if (memory.scratch.size() < 2 * AlignUp(input.bytes())) {
    return absl::InvalidArgumentError("a block needs memory for its input's gradient, or for its residual's");
  }
  RegionCarver scratch(memory.scratch);
  scratch.Take(input.dtype, {input.rows(), shape_.hidden});  // what the pieces of I use in turn
  return scratch.Take(input.dtype, {input.dims[0], input.dims[1], shape_.hidden});
}

absl::Status TransformerBlock::BackwardMlp(const BackwardCall& call) const {
  Stream& stream = *call.micro_batch.stream;
  TensorOperations& operations = device_.operations();
  const Tensor& d_gelu_input = call.pending.d_gelu_input;
  const Tensor& d_residual = call.d_residual;
  STAGECOACH_ASSIGN_OR_RETURN(const Tensor d_projection,
                              EnqueueMlpProjectionGradient(call.micro_batch, call.output_gradient, call.memory));
  STAGECOACH_RETURN_IF_ERROR(mlp_out_.EnqueueBackwardInput(operations.matmul(), stream, d_projection, d_gelu_input));
  STAGECOACH_RETURN_IF_ERROR(
      operations.elementwise().EnqueueGeluGradient(stream, call.saved.gelu_input, d_gelu_input, d_gelu_input));
  STAGECOACH_RETURN_IF_ERROR(
      mlp_in_.EnqueueBackwardInput(operations.matmul(), stream, d_gelu_input, call.pending.d_ln_2_output));
  STAGECOACH_RETURN_IF_ERROR(
      device_.EnqueueCopy(stream, d_residual.data, call.output_gradient.data, d_residual.bytes()));
  return operations.norm().EnqueueBackwardInput(stream, call.shared.residual.AsMatrix(), call.shared.ln_2_mean_rstd,
                                                ln_2_.gamma.value, call.pending.d_ln_2_output, /*accumulate=*/true,
                                                d_residual.AsMatrix());
}

absl::Status TransformerBlock::BackwardAttention(const BackwardCall& call) const {
  Stream& stream = *call.micro_batch.stream;
  TensorOperations& operations = device_.operations();
  MatmulOperations& matmul = operations.matmul();
  const Tensor& input = call.input;
  const Pending& pending = call.pending;
  const Dropout dropout = dropout_.Of(call.micro_batch, shape_.residual_dropout, kDropAttentionOutput);
  STAGECOACH_RETURN_IF_ERROR(operations.elementwise().EnqueueDropoutAdd(stream, call.d_residual, dropout,
                                                                        /*residual=*/{},
                                                                        pending.d_attention_projection));
  const Tensor d_attention = RegionCarver(call.memory.scratch).Take(input.dtype, {input.rows(), shape_.hidden});
  STAGECOACH_RETURN_IF_ERROR(
      attention_out_.EnqueueBackwardInput(matmul, stream, pending.d_attention_projection, d_attention));
  STAGECOACH_RETURN_IF_ERROR(operations.attention().EnqueueBackward(
      stream, {.forward = AttentionOf(call.micro_batch, input, call.shared, call.saved),
               .d_output = d_attention,
               .d_qkv = pending.d_qkv}));
  STAGECOACH_RETURN_IF_ERROR(attention_in_.EnqueueBackwardInput(matmul, stream, pending.d_qkv, pending.d_ln_1_output));
  if (call.input_gradient.empty()) return absl::OkStatus();
  return operations.norm().EnqueueBackwardInput(stream, input.AsMatrix(), call.shared.ln_1_mean_rstd, ln_1_.gamma.value,
                                                pending.d_ln_1_output, /*accumulate=*/true,
                                                call.input_gradient.AsMatrix());
}

absl::Status TransformerBlock::BackwardWeight(const MicroBatch& micro_batch, const Tensor& input,
                                              const Tensor& /*labels*/, const Tensor& output_gradient,
                                              const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  Stream& stream = *micro_batch.stream;
  MatmulOperations& matmul = device_.operations().matmul();
  NormOperations& norm = device_.operations().norm();
  const Shared shared(shape_, input, memory);
  const Pending pending(shape_, input, memory);
  STAGECOACH_ASSIGN_OR_RETURN(const Tensor d_projection,
                              EnqueueMlpProjectionGradient(micro_batch, output_gradient, memory));
  STAGECOACH_RETURN_IF_ERROR(mlp_out_.EnqueueBackwardWeight(matmul, stream, shared.gelu_output, d_projection));
  STAGECOACH_RETURN_IF_ERROR(mlp_in_.EnqueueBackwardWeight(matmul, stream, shared.ln_2_output, pending.d_gelu_input));
  STAGECOACH_RETURN_IF_ERROR(norm.EnqueueBackwardWeight(stream, shared.residual.AsMatrix(), shared.ln_2_mean_rstd,
                                                        pending.d_ln_2_output, ln_2_.gamma.gradient,
                                                        ln_2_.beta.gradient));
  STAGECOACH_RETURN_IF_ERROR(
      attention_out_.EnqueueBackwardWeight(matmul, stream, shared.attention_output, pending.d_attention_projection));
  STAGECOACH_RETURN_IF_ERROR(attention_in_.EnqueueBackwardWeight(matmul, stream, shared.ln_1_output, pending.d_qkv));
  return norm.EnqueueBackwardWeight(stream, input.AsMatrix(), shared.ln_1_mean_rstd, pending.d_ln_1_output,
                                    ln_1_.gamma.gradient, ln_1_.beta.gradient);
}

}  // namespace stagecoach
