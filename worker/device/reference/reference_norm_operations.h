#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_NORM_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_NORM_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Layer norm, as plain loops in float64. Stateless.
class ReferenceNormOperations : public NormOperations {
 public:
  absl::Status EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                              const Tensor& y, const Tensor& mean_rstd) override;
  absl::Status EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& gamma,
                                    const Tensor& dy, bool accumulate, const Tensor& dx) override;
  absl::Status EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& dy,
                                     const Tensor& d_gamma, const Tensor& d_beta) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_NORM_OPERATIONS_H_
