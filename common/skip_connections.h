#ifndef STAGECOACH_COMMON_SKIP_CONNECTIONS_H_
#define STAGECOACH_COMMON_SKIP_CONNECTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "stagecoach/v1/plan.pb.h"
#include "stagecoach/v1/program.pb.h"

namespace stagecoach {

// What follows from the skip connections of a graph, in one place: the coordinator plans edges by it, and the worker
// lays out and moves tensors by it. Pure.
//
// Where a connection from layer f to layer t stays within a stage, its tensor lies behind the layers' scratch from f to
// t in F, and from t to f in I. Where it leaves the stage, it is copied into the send slot of a skip edge as soon as f
// has run (in I: t), and added from the receive slot just before t runs (in I: f). Nothing is kept for the backward:
// the gradient of a sum is that of each of its terms.

// INVALID_ARGUMENT: one joins layers that there are not, or that have no activation there; has fewer than two layers
// from end to end; starts or ends where another does; or they are not in order.
absl::Status CheckSkipConnections(const v1::ModelGraph& graph);

// Whether the gradient goes back along it: a layer at or below its start is trained.
bool HasGradient(const v1::ModelGraph& graph, const v1::SkipConnection& connection);

// Those that both start and end among the layers, as indices in the graph, ascending. Behind the scratch of its layers
// a stage holds one tensor for each, rounded up to kTensorAlignment, in this order.
std::vector<uint32_t> SkipConnectionsWithin(const v1::ModelGraph& graph, uint32_t first_layer, uint32_t last_layer);

inline bool IsSkip(v1::ChannelKind kind) {
  return kind == v1::CHANNEL_KIND_SKIP || kind == v1::CHANNEL_KIND_SKIP_GRADIENT;
}

// All connections from one stage to another, in one direction: they share a channel.
struct SkipEdge {
  uint32_t from_stage = 0;  // the sender: the lower one, or of gradients the upper one
  uint32_t to_stage = 0;
  bool is_gradient = false;
  std::vector<uint32_t> connections;  // indices in the graph, ascending
  bool operator==(const SkipEdge&) const = default;
};
// Of a plan whose stages hold all layers, in order: activations, then gradients, each ascending by sender, then
// receiver. `trains`: with gradients.
std::vector<SkipEdge> SkipEdgesOf(const v1::ModelGraph& graph, const v1::Plan& plan, bool trains);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_SKIP_CONNECTIONS_H_
