#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_

#include <array>
#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Optimizer updates, norms and digests of the CPU device; see worker/device/update_steps.h for the exact steps. Used by
// the device's thread.
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
  static constexpr int64_t kPartialSums = 1024;

  const int threads_;
  std::array<double, kPartialSums> partial_sums_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_UPDATE_OPERATIONS_H_
