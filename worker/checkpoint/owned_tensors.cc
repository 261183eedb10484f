#include "worker/checkpoint/owned_tensors.h"

#include "absl/strings/str_cat.h"
#include "common/quoted.h"

namespace stagecoach {

absl::StatusOr<std::map<std::string, OwnedTensor>> CollectOwned(std::span<StageState* const> states) {
  std::map<std::string, OwnedTensor> owned;
  for (StageState* state : states) {
    for (const StateTensor& tensor : state->tensors()) {
      if (!tensor.owned) continue;
      if (!owned.emplace(tensor.name, OwnedTensor{state, &tensor}).second) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": two stages own it"));
      }
    }
  }
  return owned;
}

ShardTensor Describe(const StateTensor& tensor) {
  const Tensor& values = tensor.tensor;
  return {.name = tensor.name,
          .dtype = values.dtype,
          .shape = std::vector<uint64_t>(values.dims.begin(), values.dims.begin() + values.rank),
          .optimizer_state = tensor.optimizer_state};
}

absl::Status CheckAllAt(std::span<StageState* const> states, Step step) {
  for (const StageState* state : states) {
    if (state->applied_step() == step) continue;
    return absl::FailedPreconditionError(absl::StrCat("asked for a checkpoint of step ", step.value(),
                                                      ", the stage is at step ", state->applied_step().value()));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach
