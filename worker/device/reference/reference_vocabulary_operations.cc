#include "worker/device/reference/reference_vocabulary_operations.h"

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "worker/device/operation_checks.h"

namespace stagecoach {

absl::Status ReferenceVocabularyOperations::EnqueueEmbedding(Stream& stream, const Tensor& tokens, const Tensor& table,
                                                             const Tensor& positions, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckEmbedding(tokens, table, positions, y, v1::DTYPE_F64));
  const int64_t hidden = table.columns();
  for (int64_t row = 0; row < tokens.num_elements(); ++row) {
    const double* token = table.as<double>() + tokens.as<int32_t>()[row] * hidden;
    const double* position = positions.as<double>() + row % tokens.columns() * hidden;
    for (int64_t j = 0; j < hidden; ++j) y.as<double>()[row * hidden + j] = token[j] + position[j];
  }
  return absl::OkStatus();
}

absl::Status ReferenceVocabularyOperations::EnqueueEmbeddingGradient(Stream& stream, const Tensor& tokens,
                                                                     const Tensor& dy, const Tensor& d_table,
                                                                     const Tensor& d_positions) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckEmbedding(tokens, d_table, d_positions, dy, v1::DTYPE_F64));
  const int64_t hidden = dy.columns();
  for (int64_t row = 0; row < tokens.num_elements(); ++row) {
    double* token = d_table.as<double>() + tokens.as<int32_t>()[row] * hidden;
    double* position = d_positions.as<double>() + row % tokens.columns() * hidden;
    for (int64_t j = 0; j < hidden; ++j) {
      token[j] += dy.as<double>()[row * hidden + j];
      position[j] += dy.as<double>()[row * hidden + j];
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceVocabularyOperations::EnqueueCrossEntropy(Stream& stream, const Tensor& logits,
                                                                const Tensor& labels, const Tensor& log_sum_exp,
                                                                const Tensor& loss) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckCrossEntropy(logits, labels, log_sum_exp, loss, v1::DTYPE_F64));
  const int64_t vocab = logits.columns();
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const double* scores = logits.as<double>() + row * vocab;
    const int32_t label = labels.as<int32_t>()[row];
    log_sum_exp.as<double>()[row] = 0;
    loss.as<double>()[row] = 0;
    if (label < 0) continue;
    const double largest = *std::max_element(scores, scores + vocab);
    double sum = 0;
    for (int64_t j = 0; j < vocab; ++j) sum += std::exp(scores[j] - largest);
    log_sum_exp.as<double>()[row] = largest + std::log(sum);
    loss.as<double>()[row] = log_sum_exp.as<double>()[row] - scores[label];
  }
  return absl::OkStatus();
}

absl::Status ReferenceVocabularyOperations::EnqueueCrossEntropyGradient(Stream& stream, const Tensor& logits,
                                                                        int64_t first_column, const Tensor& labels,
                                                                        const Tensor& log_sum_exp, double scale) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckCrossEntropyGradient(logits, first_column, labels, log_sum_exp, v1::DTYPE_F64));
  const int64_t columns = logits.columns();
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const int32_t label = labels.as<int32_t>()[row];
    for (int64_t j = 0; j < columns; ++j) {
      double& logit = logits.as<double>()[row * columns + j];
      const double one_hot = first_column + j == label ? 1 : 0;
      logit = label < 0 ? 0 : scale * (std::exp(logit - log_sum_exp.as<double>()[row]) - one_hot);
    }
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
