#ifndef STAGECOACH_WORKER_OPTIMIZER_SGD_OPTIMIZER_H_
#define STAGECOACH_WORKER_OPTIMIZER_SGD_OPTIMIZER_H_

#include <array>

#include "worker/optimizer/optimizer.h"

namespace stagecoach {

// Gradient descent, with momentum (one moment, "momentum") when the specification's is above 0. Stateless.
class SgdOptimizer : public Optimizer {
 public:
  explicit SgdOptimizer(const v1::OptimizerSpec& spec) : spec_(spec) {}

  std::span<const char* const> moment_names() const override {
    return std::span<const char* const>(kMomentNames).first(spec_.momentum() > 0 ? 1 : 0);
  }
  absl::Status EnqueueUpdate(UpdateOperations& operations, Stream& stream, const OptimizedTensor& tensor,
                             const v1::CommitRecord& record) const override;

 private:
  static constexpr std::array<const char*, 1> kMomentNames = {"momentum"};
  const v1::OptimizerSpec spec_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_OPTIMIZER_SGD_OPTIMIZER_H_
