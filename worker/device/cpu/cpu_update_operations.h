#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Optimizer updates, norms and digests of the CPU device; see the .cc for the exact steps of an update. Used by the
// device's thread.
class CpuUpdateOperations : public UpdateOperations {
 public:
  explicit CpuUpdateOperations(int threads) : threads_(threads) {}

  absl::Status EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& exp_avg,
                            const Tensor& exp_avg_sq, const AdamW& update) override;
  absl::Status EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                          const Sgd& update) override;
  absl::Status EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                  const Tensor& num_non_finite) override;
  absl::Status EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) override;

 private:
  const int threads_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_
