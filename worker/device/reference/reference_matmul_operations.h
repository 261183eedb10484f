#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_MATMUL_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_MATMUL_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Matrix products and column sums, as plain loops in float64. Stateless.
class ReferenceMatmulOperations : public MatmulOperations {
 public:
  absl::Status EnqueueMatmul(Stream& stream, const Matmul& matmul) override;
  absl::Status EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_MATMUL_OPERATIONS_H_
