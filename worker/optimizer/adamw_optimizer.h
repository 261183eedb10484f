#ifndef STAGECOACH_WORKER_OPTIMIZER_ADAMW_OPTIMIZER_H_
#define STAGECOACH_WORKER_OPTIMIZER_ADAMW_OPTIMIZER_H_

#include <array>
#include <cstdint>

#include "worker/optimizer/optimizer.h"

namespace stagecoach {

// Adam with decoupled weight decay. Two moments: exp_avg, exp_avg_sq. Stateless.
class AdamWOptimizer : public Optimizer {
 public:
  explicit AdamWOptimizer(const v1::OptimizerSpec& spec) : spec_(spec) {}

  std::span<const char* const> moment_names() const override { return kMomentNames; }
  absl::Status EnqueueUpdate(UpdateOperations& operations, Stream& stream, const OptimizedTensor& tensor,
                             const v1::CommitRecord& record) const override;

 private:
  static constexpr std::array<const char*, 2> kMomentNames = {"exp_avg", "exp_avg_sq"};
  const v1::OptimizerSpec spec_;
};

// 1 - beta^num_updates by multiplications in a fixed order, so that it does not depend on a mathematical library.
double BiasCorrection(double beta, uint64_t num_updates);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_OPTIMIZER_ADAMW_OPTIMIZER_H_
