#ifndef STAGECOACH_WORKER_DEVICE_OPERATION_CHECKS_H_
#define STAGECOACH_WORKER_DEVICE_OPERATION_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// What every device demands of the operands of tensor_operations.h before it writes anything: INVALID_ARGUMENT with the
// operation, the operand and its shape. `compute` is the device's compute dtype. Operands of elementwise operations and
// norms fit when they are the same matrix (rows x columns), whatever their rank.
absl::Status CheckMatmul(const Matmul& matmul, v1::DType compute);
absl::Status CheckColumnSum(const Tensor& rows, const Tensor& sum, v1::DType compute);

absl::Status CheckDropout(const Dropout& dropout);
absl::Status CheckAttention(const Attention& attention, v1::DType compute);
absl::Status CheckAttentionGradient(const AttentionGradient& gradient, v1::DType compute);

struct NormOperands {
  const Tensor& x;
  const Tensor& y;  // or the gradient of y, or of x
  const Tensor& mean_rstd;
  const Tensor* gamma = nullptr;  // null: the operation has none
  const Tensor* beta = nullptr;
  const Tensor* d_gamma = nullptr;
  const Tensor* d_beta = nullptr;
};
absl::Status CheckNorm(const NormOperands& operands, v1::DType compute);
absl::Status CheckNormEpsilon(double epsilon);

// Of two or three tensors that must be the same matrix.
absl::Status CheckSameMatrix(const char* operation, const Tensor& a, const Tensor& b, v1::DType compute);
absl::Status CheckSameMatrix(const char* operation, const Tensor& a, const Tensor& b, const Tensor& c,
                             v1::DType compute);
// Of one tensor of the compute dtype; any shape.
absl::Status CheckTensor(const char* operation, const char* operand, const Tensor& t, v1::DType dtype);
absl::Status CheckDropoutAdd(const Tensor& x, const Dropout& dropout, const Tensor& residual, const Tensor& y,
                             v1::DType compute);

// These read tokens and labels, so they are for devices whose memory the host can address.
absl::Status CheckEmbedding(const Tensor& tokens, const Tensor& table, const Tensor& positions, const Tensor& y,
                            v1::DType compute);
absl::Status CheckCrossEntropy(const Tensor& logits, const Tensor& labels, const Tensor& log_sum_exp,
                               const Tensor& loss, v1::DType compute);
// `first_column` may be anything from 0: the labels' upper bound is not known from a tile.
absl::Status CheckCrossEntropyGradient(const Tensor& logits, int64_t first_column, const Tensor& labels,
                                       const Tensor& log_sum_exp, v1::DType compute);

absl::Status CheckAdamW(const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                        const Tensor& exp_avg_sq, v1::DType compute);
absl::Status CheckSgd(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum, v1::DType compute);
absl::Status CheckSquaredNorm(const Tensor& t, const Tensor& squared_norm, const Tensor& num_non_finite,
                              v1::DType compute);
absl::Status CheckDigest(const Tensor& t, const Tensor& digest);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_OPERATION_CHECKS_H_
