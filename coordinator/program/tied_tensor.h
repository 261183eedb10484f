#ifndef STAGECOACH_COORDINATOR_PROGRAM_TIED_TENSOR_H_
#define STAGECOACH_COORDINATOR_PROGRAM_TIED_TENSOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

inline constexpr uint64_t kParameterBytes = 4;  // f32 values, gradients and optimizer moments

uint64_t NumElements(const v1::ParameterSpec& parameter);

// A tensor with two uses, each with an accumulator of its own.
struct TiedTensor {
  std::string name;
  uint32_t owner_layer = 0;
  uint32_t later_layer = 0;
  uint64_t bytes = 0;
  bool is_trained = true;  // false: both layers are frozen
};

// The tied tensor of a graph, if it has one. INVALID_ARGUMENT: several later uses, or an owner that is not before its
// later use or has no such tensor, or one of the two layers is frozen.
absl::StatusOr<std::optional<TiedTensor>> FindTiedTensor(const v1::ModelGraph& graph);
// The same when it is trained, so that its two gradients are added; nothing otherwise.
absl::StatusOr<std::optional<TiedTensor>> FindTrainedTie(const v1::ModelGraph& graph);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_TIED_TENSOR_H_
