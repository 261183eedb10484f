#ifndef STAGECOACH_COMMON_FROZEN_LAYERS_H_
#define STAGECOACH_COMMON_FROZEN_LAYERS_H_

#include <cstdint>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// What follows from the frozen layers of a graph, in one place: the coordinator prunes by it, and the worker lays its
// slots out by it. A layer is trained unless it is frozen. Pure.

// The first trained layer; layers_size() when there is none.
uint32_t LowestTrainedLayer(const v1::ModelGraph& graph);

// What a layer has to do in the backward.
enum class LayerRole {
  kTrained,        // all of it
  kLowestTrained,  // no gradient of its input: nothing below wants one
  kPassing,        // frozen, above a trained layer: the gradient of its input alone
  kForwardOnly,    // frozen, below every trained layer: nothing
};
LayerRole RoleOf(const v1::ModelGraph& graph, uint32_t layer);

// Whether the layer's input is kept from Forward on, and its output's gradient until BackwardWeight.
inline bool KeepsInput(LayerRole role) { return role != LayerRole::kForwardOnly; }
inline bool KeepsOutputGradient(LayerRole role) {
  return role == LayerRole::kTrained || role == LayerRole::kLowestTrained;
}
// Whether BackwardInput has something to compute. A block that makes no gradient of its input still makes those that
// its weights' gradients need.
inline bool HasBackwardInput(const v1::LayerSpec& layer, LayerRole role) {
  if (role == LayerRole::kLowestTrained) return layer.kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK;
  return role != LayerRole::kForwardOnly;
}

// What a stage has to do in the backward.
struct StageBackward {
  bool input = true;           // I, and R before it: a layer in the stage or below it is trained
  bool weight = true;          // W: a layer in it is trained
  bool sends_gradient = true;  // I makes the gradient of the stage's input: a layer below the stage is trained
  bool operator==(const StageBackward&) const = default;
};
StageBackward BackwardOfStage(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_FROZEN_LAYERS_H_
