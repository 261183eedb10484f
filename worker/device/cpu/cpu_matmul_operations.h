#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_MATMUL_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_MATMUL_OPERATIONS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cpu/cpu_workspace.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Matrix products by oneDNN, whose primitives are made at the first use of a shape and kept; oneDNN gets its scratch
// memory from the device's workspace. Used by the device's thread.
//
// Layouts, measured at GPT-2's sizes on one core with AVX-512 (tests/bench/matmul_attention_benchmark): operands as
// they lie in memory reach 105 to 112 GFLOP/s, with weights packed beforehand by oneDNN 112 to 115. Packing once a step
// would gain 3 to 5% in the forward products and in those for input gradients, nothing in those for weight gradients
// (their right operand is an activation): about 2% of a block's time, for a second copy of the weights and one more
// thing to keep fresh, so it is not done. Packing inside the call, into the workspace, costs 1% of a product of many
// rows and gains most of it where the right operand is not transposed: that is done, by a rule on the shape alone. A
// transposed left operand that is rearranged first is slower than oneDNN's own way in most shapes.
class CpuMatmulOperations : public MatmulOperations {
 public:
  // `workspace` outlives this. INTERNAL when oneDNN does not start.
  static absl::StatusOr<std::unique_ptr<CpuMatmulOperations>> Create(int threads, CpuWorkspace* workspace);
  ~CpuMatmulOperations() override;

  // Also RESOURCE_EXHAUSTED, when the workspace cannot grow.
  absl::Status EnqueueMatmul(Stream& stream, const Matmul& matmul) override;
  absl::Status EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) override;

 private:
  class OneDnn;

  CpuMatmulOperations(int threads, std::unique_ptr<OneDnn> one_dnn);

  const int threads_;
  const std::unique_ptr<OneDnn> one_dnn_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_MATMUL_OPERATIONS_H_
