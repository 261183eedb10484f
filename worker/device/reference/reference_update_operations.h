#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_UPDATE_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_UPDATE_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Optimizer updates, norms and digests, as plain loops in float64. Stateless.
class ReferenceUpdateOperations : public UpdateOperations {
 public:
  absl::Status EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                            const Tensor& exp_avg_sq, const AdamW& update) override;
  absl::Status EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                          const Sgd& update) override;
  absl::Status EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                  const Tensor& num_non_finite) override;
  absl::Status EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_UPDATE_OPERATIONS_H_
