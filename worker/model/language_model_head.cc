#include "worker/model/language_model_head.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/layer_memory.h"
#include "common/status_macros.h"
#include "worker/model/layer_spec_reader.h"
#include "worker/model/region_carver.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kDeviceTimeout = absl::Minutes(10);

// What the gradient of a token's own loss is multiplied by.
double GradientScale(const MicroBatch& micro_batch, int64_t num_tokens) {
  if (num_tokens == 0) return 0;
  return micro_batch.loss_weight * micro_batch.loss_scale / static_cast<double>(num_tokens);
}

Tensor AsVector(const Tensor& t) { return Tensor::Of(t.data, t.dtype, {t.num_elements()}); }

Tensor LogSumExp(const Tensor& input, const LayerMemory& memory) {
  return RegionCarver(memory.shared).Take(input.dtype, {input.rows()});
}

Tensor SavedInputGradient(const Tensor& input, const LayerMemory& memory) {
  return RegionCarver(memory.saved).Take(input.dtype, {input.rows(), input.columns()});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> LanguageModelHead::Create(const v1::LayerSpec& spec,
                                                                 const LayerContext& context) {
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t hidden, ReadSize(spec, "hidden_size"));
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t vocab, ReadSize(spec, "vocab_size"));
  STAGECOACH_RETURN_IF_ERROR(CheckParameters(spec, context.parameters, {{vocab, hidden}}));
  if (!context.device.capabilities().host_addressable) {
    return absl::UnimplementedError(absl::StrCat("layer ", spec.name(), ": device ", context.device.capabilities().kind,
                                                 " keeps labels and losses where the host cannot read them"));
  }
  return absl::WrapUnique<Layer>(new LanguageModelHead(context, vocab));
}

LanguageModelHead::Rows LanguageModelHead::Rows::Slice(int64_t first, int64_t count) const {
  return {.input = input.Slice(first, count),
          .labels = labels.Slice(first, count),
          .log_sum_exp = log_sum_exp.Slice(first, count),
          .loss = loss.Slice(first, count),
          .input_gradient = input_gradient.empty() ? Tensor() : input_gradient.Slice(first, count)};
}

absl::Status LanguageModelHead::WaitComplete(Stream& stream) const {
  STAGECOACH_ASSIGN_OR_RETURN(const EventRef event, device_.Record(stream));
  return device_.WaitComplete(event, kDeviceTimeout);
}

absl::StatusOr<int64_t> LanguageModelHead::CountTokens(Stream& stream, const Tensor& labels) const {
  STAGECOACH_RETURN_IF_ERROR(WaitComplete(stream));
  const int32_t* values = labels.as<int32_t>();
  return std::count_if(values, values + labels.num_elements(), [](int32_t label) { return label >= 0; });
}

absl::Status LanguageModelHead::Forward(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                                        const Tensor& output, const LayerMemory& memory) {
  double& loss_part = *output.as<double>();
  loss_part = 0;
  if (micro_batch.samples == 0) return absl::OkStatus();
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t num_tokens, CountTokens(*micro_batch.stream, labels));

  const int64_t num_rows = input.rows();
  RegionCarver scratch(memory.scratch);
  Rows rows = {.input = input.AsMatrix(), .labels = AsVector(labels), .log_sum_exp = LogSumExp(input, memory)};
  rows.loss = scratch.Take(v1::DTYPE_F64, {num_rows});
  // No room to save it: nothing below is trained, and nobody wants it.
  if (micro_batch.training && !memory.saved.empty()) rows.input_gradient = SavedInputGradient(input, memory);
  const int64_t rows_at_a_time = HeadForwardRows(num_rows, vocab_);
  const Tensor logits = scratch.Take(input.dtype, {rows_at_a_time, vocab_});
  for (int64_t first = 0; first < num_rows; first += rows_at_a_time) {
    const int64_t count = std::min(rows_at_a_time, num_rows - first);
    STAGECOACH_RETURN_IF_ERROR(ForwardRows(micro_batch, rows.Slice(first, count), logits.Slice(0, count),
                                           GradientScale(micro_batch, num_tokens)));
  }

  STAGECOACH_RETURN_IF_ERROR(WaitComplete(*micro_batch.stream));
  if (num_tokens == 0) return absl::OkStatus();
  double sum = 0;
  for (int64_t row = 0; row < num_rows; ++row) sum += rows.loss.as<double>()[row];
  loss_part = micro_batch.loss_weight * (sum / static_cast<double>(num_tokens));
  return absl::OkStatus();
}

absl::Status LanguageModelHead::ForwardRows(const MicroBatch& micro_batch, const Rows& rows, const Tensor& logits,
                                            double gradient_scale) const {
  Stream& stream = *micro_batch.stream;
  MatmulOperations& matmul = device_.operations().matmul();
  VocabularyOperations& vocabulary = device_.operations().vocabulary();
  STAGECOACH_RETURN_IF_ERROR(
      matmul.EnqueueMatmul(stream, {.a = rows.input, .b = weight_.value, .c = logits, .transpose_b = true}));
  STAGECOACH_RETURN_IF_ERROR(vocabulary.EnqueueCrossEntropy(stream, logits, rows.labels, rows.log_sum_exp, rows.loss));
  if (rows.input_gradient.empty()) return absl::OkStatus();
  STAGECOACH_RETURN_IF_ERROR(vocabulary.EnqueueCrossEntropyGradient(stream, logits, /*first_column=*/0, rows.labels,
                                                                    rows.log_sum_exp, gradient_scale));
  return matmul.EnqueueMatmul(stream, {.a = logits, .b = weight_.value, .c = rows.input_gradient});
}

absl::Status LanguageModelHead::BackwardInput(const MicroBatch& micro_batch, const Tensor& input,
                                              const Tensor& /*output_gradient*/, const Tensor& input_gradient,
                                              const LayerMemory& memory) {
  if (micro_batch.samples == 0 || input_gradient.empty()) return absl::OkStatus();
  const Tensor saved = SavedInputGradient(input, memory);
  return device_.EnqueueCopy(*micro_batch.stream, input_gradient.data, saved.data, saved.bytes());
}

absl::Status LanguageModelHead::BackwardWeight(const MicroBatch& micro_batch, const Tensor& input, const Tensor& labels,
                                               const Tensor& /*output_gradient*/, const LayerMemory& memory) {
  if (micro_batch.samples == 0) return absl::OkStatus();
  Stream& stream = *micro_batch.stream;
  MatmulOperations& matmul = device_.operations().matmul();
  STAGECOACH_ASSIGN_OR_RETURN(const int64_t num_tokens, CountTokens(stream, labels));
  const double scale = GradientScale(micro_batch, num_tokens);
  const Tensor rows = input.AsMatrix();
  const int64_t columns_at_a_time = HeadWeightColumns(rows.rows(), vocab_);
  for (int64_t first = 0; first < vocab_; first += columns_at_a_time) {
    const int64_t count = std::min(columns_at_a_time, vocab_ - first);
    const Tensor logits = RegionCarver(memory.scratch).Take(input.dtype, {rows.rows(), count});
    STAGECOACH_RETURN_IF_ERROR(matmul.EnqueueMatmul(
        stream, {.a = rows, .b = weight_.value.Slice(first, count), .c = logits, .transpose_b = true}));
    STAGECOACH_RETURN_IF_ERROR(device_.operations().vocabulary().EnqueueCrossEntropyGradient(
        stream, logits, first, AsVector(labels), LogSumExp(input, memory), scale));
    STAGECOACH_RETURN_IF_ERROR(matmul.EnqueueMatmul(
        stream,
        {.a = logits, .b = rows, .c = weight_.gradient.Slice(first, count), .transpose_a = true, .accumulate = true}));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
