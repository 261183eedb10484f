#include "worker/model/token_embedding_layer.h"

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "worker/model/layer_spec_reader.h"
#include "worker/model/region_carver.h"

namespace stagecoach {
namespace {

constexpr uint64_t kDropoutOperation = 0;

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> TokenEmbeddingLayer::Create(const v1::LayerSpec& spec,
                                                                   const LayerContext& context) {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t vocab, ReadSize(spec, "vocab_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t positions, ReadSize(spec, "max_position_embeddings"));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t hidden, ReadSize(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const double dropout, ReadDropoutProbability(spec, "embd_pdrop"));
  STAGECOACH_RETURN_IF_ERROR(CheckParameters(spec, context.parameters, {{vocab, hidden}, {positions, hidden}}));
  return absl::WrapUnique<Layer>(new TokenEmbeddingLayer(context, dropout));
}

TokenEmbeddingLayer::TokenEmbeddingLayer(const LayerContext& context, double dropout_probability)
    : device_(context.device),
      table_(context.parameters[0]),
      positions_(context.parameters[1]),
      dropout_(context.seed, context.index),
      dropout_probability_(dropout_probability) {}

absl::Status TokenEmbeddingLayer::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& /*labels*/,
                                          const Tensor& output, const LayerMemory& /*memory*/) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  Stream& stream = *micro_batch.stream;
  TensorOperations& operations = device_.operations();
  STAGECOACH_RETURN_IF_ERROR(
      operations.vocabulary().EnqueueEmbedding(stream, input, table_.value, positions_.value, output));
  const Dropout dropout = dropout_.Of(micro_batch, dropout_probability_, kDropoutOperation);
  if (dropout.probability == 0) return absl::OkStatus();
  return operations.elementwise().EnqueueDropoutAdd(stream, output, dropout, /*residual=*/{}, output);
}

absl::Status TokenEmbeddingLayer::BackwardInput(const MicroBatch& /*micro_batch*/, const Tensor& /*input*/,
                                                const Tensor& /*output_gradient*/, const Tensor& input_gradient,
                                                const LayerMemory& /*memory*/) {
  if (!input_gradient.empty()) return absl::InvalidArgumentError("tokens have no gradient");
  return absl::OkStatus();
}

absl::Status TokenEmbeddingLayer::BackwardWeight(const MicroBatch& micro_batch, const Tensor& input,
                                                 const Tensor& /*labels*/, const Tensor& output_gradient,
                                                 const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  Stream& stream = *micro_batch.stream;
  TensorOperations& operations = device_.operations();
  Tensor gradient = output_gradient;  // [samples, seq, hidden]
  const Dropout dropout = dropout_.Of(micro_batch, dropout_probability_, kDropoutOperation);
  if (dropout.probability != 0) {
    gradient =
        RegionCarver(memory.scratch).Take(gradient.dtype, {gradient.dims[0], gradient.dims[1], gradient.dims[2]});
    STAGECOACH_RETURN_IF_ERROR(
        operations.elementwise().EnqueueDropoutAdd(stream, output_gradient, dropout, /*residual=*/{}, gradient));
  }
  return operations.vocabulary().EnqueueEmbeddingGradient(stream, input, gradient, table_.gradient,
                                                          positions_.gradient);
}

}  // namespace stagecoach
