#include "coordinator/spec/layer_name_index.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/spec/model_graph.h"
#include "coordinator/spec/spec_hints.h"
#include "coordinator/spec/spec_values.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kNumOthers = 3;  // embedding, final norm and head

}  // namespace

LayerNameIndex::LayerNameIndex(const v1::ModelConfig& config) : names_(LayerNames(config)) {
  for (size_t layer = 0; layer < names_.size(); ++layer) layer_of_name_.emplace(names_[layer], layer);
}

std::optional<size_t> LayerNameIndex::Find(const std::string& name) const {
  const auto found = layer_of_name_.find(name);
  if (found == layer_of_name_.end()) return std::nullopt;
  return found->second;
}

std::string LayerNameIndex::LayersText() const {
  return absl::StrCat("the layers are ", names_.front(), ", ", kBlockPrefix, "0 to ", kBlockPrefix,
                      names_.size() - kNumOthers - 1, ", ", names_[names_.size() - 2], " and ", names_.back());
}

std::string LayerNameIndex::HintFor(const std::string& name, absl::string_view whole) const {
  for (const std::string& layer : names_) {
    if (absl::StartsWith(name, absl::StrCat(layer, "."))) return absl::StrCat(whole, "; did you mean ", layer, "?");
  }
  if (absl::StartsWith(name, kBlockPrefix)) return LayersText();
  const std::string hint = HintFromCandidates(name, std::vector<absl::string_view>(names_.begin(), names_.end()));
  return hint.empty() ? LayersText() : hint;
}

std::optional<std::string> ReadLayerName(const SpecNode& node, absl::string_view path, SpecProblems& problems) {
  std::optional<std::string> name = ReadText(node, path, problems);
  if (!name.has_value() || (!name->empty() && name->size() <= kMaxNameBytes)) return name;
  problems.Add(node, path, absl::StrCat("a layer's name has 1 to ", kMaxNameBytes, " bytes"));
  return std::nullopt;
}

}  // namespace stagecoach
