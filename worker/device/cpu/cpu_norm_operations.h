#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_NORM_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_NORM_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Layer norm of the CPU device. A task owns whole rows, or a range of columns of a weight gradient, so that no sum
// depends on the number of threads. Used by the device's thread.
class CpuNormOperations : public NormOperations {
 public:
  explicit CpuNormOperations(int threads) : threads_(threads) {}

  absl::Status EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                              const Tensor& y, const Tensor& mean_rstd) override;
  absl::Status EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& gamma,
                                    const Tensor& dy, bool accumulate, const Tensor& dx) override;
  absl::Status EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& dy,
                                     const Tensor& d_gamma, const Tensor& d_beta) override;

 private:
  const int threads_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_NORM_OPERATIONS_H_
