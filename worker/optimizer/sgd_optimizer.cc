#include "worker/optimizer/sgd_optimizer.h"

#include "common/check.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::Status SgdOptimizer::EnqueueUpdate(UpdateOperations& operations, Stream& stream, const OptimizedTensor& tensor,
                                         const v1::CommitRecord& record) const {
  STAGECOACH_CHECK(tensor.moments.size() == moment_names().size());
  STAGECOACH_ASSIGN_OR_RETURN(const double gradient_factor, GradientFactor(record));
  const Sgd update = {.learning_rate = record.learning_rate(),
                      .momentum = spec_.momentum(),
                      .weight_decay = tensor.weight_decay ? spec_.weight_decay() : 0,
                      .nesterov = spec_.nesterov(),
                      .first_update = record.num_updates() == 1,
                      .gradient_factor = gradient_factor};
  const Tensor momentum = tensor.moments.empty() ? Tensor() : tensor.moments[0];
  return operations.EnqueueSgd(stream, tensor.value, tensor.gradient, momentum, update);
}

}  // namespace stagecoach
