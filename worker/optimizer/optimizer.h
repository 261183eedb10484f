#ifndef STAGECOACH_WORKER_OPTIMIZER_OPTIMIZER_H_
#define STAGECOACH_WORKER_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/worker.pb.h"
#include "worker/device/device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// One tensor under an update, all of one shape.
struct OptimizedTensor {
  Tensor value;
  Tensor gradient;                  // final accumulator, scaled by the record's loss scale
  std::span<const Tensor> moments;  // in the order of Optimizer::moment_names
  bool weight_decay = false;
};

// The rule by which parameters follow gradients. Says which moments a tensor has; whoever holds the state allocates
// them, zeroed, and names them PARAMETER.MOMENT. Stateless: everything about the step is in the commit record, so that
// two holders of a tensor (a tied copy, a shadow's keeper) get the same bits.
class Optimizer {
 public:
  // adamw or sgd. INVALID_ARGUMENT: another name, or a number outside of its range.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const v1::OptimizerSpec& spec);
  virtual ~Optimizer() = default;

  virtual std::span<const char* const> moment_names() const = 0;
  // The update number record.num_updates() with gradient x clip factor / loss scale. INVALID_ARGUMENT: the record's
  // loss scale or number of updates is not positive.
  virtual absl::Status EnqueueUpdate(UpdateOperations& operations, Stream& stream, const OptimizedTensor& tensor,
                                     const v1::CommitRecord& record) const = 0;
};

// What multiplies an accumulator: the clip factor, and the loss scale taken out. INVALID_ARGUMENT as above.
absl::StatusOr<double> GradientFactor(const v1::CommitRecord& record);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_OPTIMIZER_OPTIMIZER_H_
