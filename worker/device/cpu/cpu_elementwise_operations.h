#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_ELEMENTWISE_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_ELEMENTWISE_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Elementwise operations of the CPU device: one pass over memory each. Used by the device's thread.
class CpuElementwiseOperations : public ElementwiseOperations {
 public:
  explicit CpuElementwiseOperations(int threads) : threads_(threads) {}

  absl::Status EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) override;
  absl::Status EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  absl::Status EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) override;
  absl::Status EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout, const Tensor& residual,
                                 const Tensor& y) override;
  absl::Status EnqueueFill(Stream& stream, const Tensor& t, double value) override;
  absl::Status EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation, uint64_t seed) override;

 private:
  const int threads_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_ELEMENTWISE_OPERATIONS_H_
