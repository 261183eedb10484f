#ifndef STAGECOACH_COORDINATOR_SPEC_SKIP_CONNECTION_LIST_H_
#define STAGECOACH_COORDINATOR_SPEC_SKIP_CONNECTION_LIST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach {

// model.skip_connections: a list of {from: LAYER, to: LAYER}, in any order. Parsing takes the names as they are, since
// which layers there are depends on other keys; an entry that has problems is taken too, with what it has.
void ParseSkipConnections(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems);
std::string PrintSkipConnections(const v1::JobSpec& spec);

// Puts the entries in the model's order, once all keys have been parsed. Problems: an end that is no layer, or that has
// no such activation; a way that leads back or past no layer; two that start, or two that end, at one layer.
void ResolveSkipConnections(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SKIP_CONNECTION_LIST_H_
