#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ELEMENTWISE_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ELEMENTWISE_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Elementwise operations, as plain loops in float64. Stateless.
class ReferenceElementwiseOperations : public ElementwiseOperations {
 public:
  absl::Status EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) override;
  absl::Status EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  absl::Status EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) override;
  absl::Status EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout, const Tensor& residual,
                                 const Tensor& y) override;
  absl::Status EnqueueFill(Stream& stream, const Tensor& t, double value) override;
  absl::Status EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation, uint64_t seed) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ELEMENTWISE_OPERATIONS_H_
