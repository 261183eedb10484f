#include "worker/device/reference/reference_matmul_operations.h"

#include "common/status_macros.h"
#include "worker/device/operation_checks.h"

namespace stagecoach {

absl::Status ReferenceMatmulOperations::EnqueueMatmul(Stream& stream, const Matmul& matmul) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckMatmul(matmul, v1::DTYPE_F64));
  const double* a = matmul.a.as<double>();
  const double* b = matmul.b.as<double>();
  const double* bias = matmul.bias.as<double>();
  double* c = matmul.c.as<double>();
  const int64_t m = matmul.c.rows();
  const int64_t n = matmul.c.columns();
  const int64_t k = matmul.transpose_a ? matmul.a.rows() : matmul.a.columns();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += (matmul.transpose_a ? a[l * m + i] : a[i * k + l]) * (matmul.transpose_b ? b[j * k + l] : b[l * n + j]);
      }
      if (bias != nullptr) sum += bias[j];
      c[i * n + j] = matmul.accumulate ? c[i * n + j] + sum : sum;
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceMatmulOperations::EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckColumnSum(rows, sum, v1::DTYPE_F64));
  const int64_t columns = rows.columns();
  for (int64_t j = 0; j < columns; ++j) {
    double column = 0;
    for (int64_t i = 0; i < rows.rows(); ++i) column += rows.as<double>()[i * columns + j];
    sum.as<double>()[j] += column;
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
