#ifndef STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_
#define STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// The ordered layers of a resolved specification's model, with parameters under their Hugging Face names
// (GPT2LMHeadModel's state_dict), initializers, memory by common/layer_memory.h, and analytic costs: token + position
// embedding, blocks, final norm, head. Layers that the specification freezes are marked, and cost no more than what is
// left of them; its skip connections lead from layer to layer. Pure. INVALID_ARGUMENT: sizes that no memory holds,
// frozen layers or skip connections that are not the model's, or not in its order.
absl::StatusOr<v1::ModelGraph> BuildModelGraph(const v1::JobSpec& spec);

// The names of its layers, in the model's order: those that model.frozen_layers has.
std::vector<std::string> LayerNames(const v1::ModelConfig& config);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_
