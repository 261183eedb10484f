#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_VOCABULARY_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_VOCABULARY_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Embedding and cross entropy, as plain loops in float64. Stateless.
class ReferenceVocabularyOperations : public VocabularyOperations {
 public:
  absl::Status EnqueueEmbedding(Stream& stream, const Tensor& tokens, const Tensor& table, const Tensor& positions,
                                const Tensor& y) override;
  absl::Status EnqueueEmbeddingGradient(Stream& stream, const Tensor& tokens, const Tensor& dy, const Tensor& d_table,
                                        const Tensor& d_positions) override;
  absl::Status EnqueueCrossEntropy(Stream& stream, const Tensor& logits, const Tensor& labels,
                                   const Tensor& log_sum_exp, const Tensor& loss) override;
  absl::Status EnqueueCrossEntropyGradient(Stream& stream, const Tensor& logits, int64_t first_column,
                                           const Tensor& labels, const Tensor& log_sum_exp, double scale) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_VOCABULARY_OPERATIONS_H_
