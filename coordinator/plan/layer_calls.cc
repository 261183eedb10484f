#include "coordinator/plan/layer_calls.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/plan/micro_batch_sizes.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

// Names stay, for people.
v1::LayerCall CallOf(const v1::LayerSpec& layer, const v1::ModelGraph& graph) {
  v1::LayerCall call;
  *call.mutable_layer() = layer;
  call.mutable_layer()->clear_cost();
  call.mutable_layer()->clear_frozen();  // a layer is measured whole, and what is frozen left out afterwards
  call.set_seq_len(graph.seq_len());
  call.set_micro_batch_size(graph.micro_batch_size());
  return call;
}

// A worker may not come to the end: what most of a model's time goes into is asked first, then what is quickly
// measured.
bool ComesBefore(const v1::LayerSpec& a, const v1::LayerSpec& b) {
  const auto key = [](const v1::LayerSpec& layer) {
    const v1::LayerCost& cost = layer.cost();
    return std::pair(layer.kind() != v1::LAYER_KIND_TRANSFORMER_BLOCK,
                     cost.forward_flops() + cost.backward_input_flops() + cost.backward_weight_flops());
  };
  return key(a) < key(b);
}

void AddUnknown(const v1::ModelGraph& graph, const LayerCosts* known, std::vector<ShapedCall>& calls) {
  std::set<std::string> seen;
  std::vector<const v1::LayerSpec*> unknown;
  for (const v1::LayerSpec& layer : graph.layers()) {
    const std::string shape = LayerShape(layer, graph.seq_len());
    if (!seen.insert(shape).second) continue;
    if (known == nullptr || known->Find(shape, graph.micro_batch_size()) == nullptr) unknown.push_back(&layer);
  }
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const v1::LayerSpec* a, const v1::LayerSpec* b) { return ComesBefore(*a, *b); });
  for (const v1::LayerSpec* layer : unknown) {
    calls.push_back({LayerShape(*layer, graph.seq_len()), CallOf(*layer, graph)});
  }
}

}  // namespace

bool WantsMeasuredCosts(const v1::JobSpec& spec) { return spec.parallelism().costs() == "measured"; }

std::vector<ShapedCall> UnknownCalls(const v1::JobSpec& spec, size_t num_workers, const LayerCosts* known) {
  std::vector<ShapedCall> calls;
  if (!WantsMeasuredCosts(spec)) return calls;
  std::vector<uint64_t> sizes = {spec.training().micro_batch_size()};
  if (ChoosesMicroBatchSize(spec)) sizes = SizesToMeasure(MicroBatchSizes(spec, num_workers));
  for (const uint64_t size : sizes) {
    const absl::StatusOr<v1::ModelGraph> graph = BuildModelGraph(WithMicroBatchSize(spec, size));
    if (graph.ok()) AddUnknown(*graph, known, calls);
  }
  return calls;
}

}  // namespace stagecoach
