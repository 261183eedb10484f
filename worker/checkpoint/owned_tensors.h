#ifndef STAGECOACH_WORKER_CHECKPOINT_OWNED_TENSORS_H_
#define STAGECOACH_WORKER_CHECKPOINT_OWNED_TENSORS_H_

#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "worker/checkpoint/shard_source.h"
#include "worker/model/stage_state.h"

namespace stagecoach {

struct OwnedTensor {
  StageState* state;
  const StateTensor* tensor;  // the state's
};

// What a worker writes of its stages, by name: a tied copy whose owner is on a lower stage is left out.
// INVALID_ARGUMENT: two stages own a tensor of one name.
absl::StatusOr<std::map<std::string, OwnedTensor>> CollectOwned(std::span<StageState* const> states);

// Name, dtype and shape; no bytes.
ShardTensor Describe(const StateTensor& tensor);

// FAILED_PRECONDITION: a stage is at another step.
absl::Status CheckAllAt(std::span<StageState* const> states, Step step);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_CHECKPOINT_OWNED_TENSORS_H_
