#include "worker/optimizer/adamw_optimizer.h"

#include "common/check.h"
#include "common/status_macros.h"

namespace stagecoach {

double BiasCorrection(double beta, uint64_t num_updates) {
  double power = 1;
  for (double square = beta; num_updates != 0; num_updates >>= 1, square *= square) {
    if (num_updates & 1) power *= square;
  }
  return 1 - power;
}

absl::Status AdamWOptimizer::EnqueueUpdate(UpdateOperations& operations, Stream& stream, const OptimizedTensor& tensor,
                                           const v1::CommitRecord& record) const {
  STAGECOACH_CHECK(tensor.moments.size() == kMomentNames.size());
  STAGECOACH_ASSIGN_OR_RETURN(const double gradient_factor, GradientFactor(record));
  const AdamW update = {.learning_rate = record.learning_rate(),
                        .beta1 = spec_.beta1(),
                        .beta2 = spec_.beta2(),
                        .epsilon = spec_.eps(),
                        .weight_decay = tensor.weight_decay ? spec_.weight_decay() : 0,
                        .bias_correction1 = BiasCorrection(spec_.beta1(), record.num_updates()),
                        .bias_correction2 = BiasCorrection(spec_.beta2(), record.num_updates()),
                        .gradient_factor = gradient_factor};
  return operations.EnqueueAdamW(stream, tensor.value, tensor.gradient, tensor.moments[0], tensor.moments[1], update);
}

}  // namespace stagecoach
