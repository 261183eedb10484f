#ifndef STAGECOACH_COORDINATOR_SPEC_FROZEN_LAYER_LIST_H_
#define STAGECOACH_COORDINATOR_SPEC_FROZEN_LAYER_LIST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// model.frozen_layers: a list of names of layers, in which * stands for any characters and transformer.h.2-5 for four
// blocks. Parsing takes the entries as they are, since which layers there are depends on other keys.
void ParseFrozenLayers(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintFrozenLayers(const v1::JobSpec& spec);

// Puts the names that the entries stand for, in the model's order, in their place, once all keys have been parsed.
// Problems: an entry that is no layer, a layer that two entries stand for, all layers, one of two layers with a tied
// tensor.
void ResolveFrozenLayers(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_FROZEN_LAYER_LIST_H_
