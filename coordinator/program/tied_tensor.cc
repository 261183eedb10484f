#include "coordinator/program/tied_tensor.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

bool HasParameter(const v1::LayerSpec& layer, const v1::ParameterSpec& wanted) {
  return std::any_of(layer.parameters().begin(), layer.parameters().end(), [&wanted](const v1::ParameterSpec& own) {
    return own.name() == wanted.name() && !own.has_tied_to_layer() && NumElements(own) == NumElements(wanted);
  });
}

}  // namespace

uint64_t NumElements(const v1::ParameterSpec& parameter) {
  uint64_t elements = 1;
  for (const uint64_t extent : parameter.shape()) elements *= extent;
  return elements;
}

absl::StatusOr<std::optional<TiedTensor>> FindTiedTensor(const v1::ModelGraph& graph) {
  std::optional<TiedTensor> tied;
  for (int layer = 0; layer < graph.layers_size(); ++layer) {
    for (const v1::ParameterSpec& parameter : graph.layers(layer).parameters()) {
      if (!parameter.has_tied_to_layer()) continue;
      const uint32_t owner = parameter.tied_to_layer();
      if (owner >= static_cast<uint32_t>(layer) || !HasParameter(graph.layers(static_cast<int>(owner)), parameter)) {
        return absl::InvalidArgumentError(
            absl::StrCat("layer ", layer, " uses ", parameter.name(), " of layer ", owner, ", which does not own it"));
      }
      if (tied.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("layers ", tied->later_layer, " and ", layer,
                                                       " both use tied tensors; one later use is possible"));
      }
      if (graph.layers(static_cast<int>(owner)).frozen() != graph.layers(layer).frozen()) {
        return absl::InvalidArgumentError(absl::StrCat("layers ", owner, " and ", layer, " use ", parameter.name(),
                                                       ", and one of them is frozen: freeze both or neither"));
      }
      tied = {.name = parameter.name(),
              .owner_layer = owner,
              .later_layer = static_cast<uint32_t>(layer),
              .bytes = NumElements(parameter) * kParameterBytes,
              .is_trained = !graph.layers(layer).frozen()};
    }
  }
  return tied;
}

absl::StatusOr<std::optional<TiedTensor>> FindTrainedTie(const v1::ModelGraph& graph) {
  absl::StatusOr<std::optional<TiedTensor>> tied = FindTiedTensor(graph);
  if (tied.ok() && tied->has_value() && !(*tied)->is_trained) return std::nullopt;
  return tied;
}

}  // namespace stagecoach
