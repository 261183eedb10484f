#ifndef STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_
#define STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_

#include "absl/status/statusor.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// The ordered layers of a resolved specification's model, with parameters under their Hugging Face names
// (GPT2LMHeadModel's state_dict), initializers, memory by common/layer_memory.h, and analytic costs: token + position
// embedding, blocks, final norm, head. Pure. INVALID_ARGUMENT: sizes that no memory holds.
absl::StatusOr<v1::ModelGraph> BuildModelGraph(const v1::JobSpec& spec);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_MODEL_GRAPH_H_
