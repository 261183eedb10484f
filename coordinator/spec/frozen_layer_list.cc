#include "coordinator/spec/frozen_layer_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/quoted.h"
#include "coordinator/spec/job_spec_rules.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/layer_name_index.h"

namespace stagecoach {
namespace {

constexpr char kPath[] = "model.frozen_layers";
constexpr size_t kMaxPatterns = 64;  // each is compared with every layer

std::string PathOfEntry(size_t index) { return absl::StrCat(kPath, "[", index, "]"); }

// Whether the whole name is like the pattern, in which * stands for any characters or none.
bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t at = 0;
  size_t of_name = 0;
  size_t star = absl::string_view::npos;
  size_t taken_by_star = 0;
  while (of_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken_by_star = of_name;
    } else if (at < pattern.size() && pattern[at] == name[of_name]) {
      ++at;
      ++of_name;
    } else if (star != absl::string_view::npos) {
      at = star + 1;
      of_name = ++taken_by_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == absl::string_view::npos;
}

// Of "transformer.h.2-5".
struct BlockRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

std::optional<BlockRange> RangeOf(absl::string_view entry) {
  if (!absl::StartsWith(entry, kBlockPrefix)) return std::nullopt;
  const absl::string_view numbers = entry.substr(kBlockPrefix.size());
  const size_t dash = numbers.find('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  BlockRange range;
  const auto is_number = [](absl::string_view text, uint32_t& value) {
    return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) && absl::SimpleAtoi(text, &value);
  };
  if (!is_number(numbers.substr(0, dash), range.first) || !is_number(numbers.substr(dash + 1), range.last)) {
    return std::nullopt;
  }
  return range;
}

class FrozenLayerResolver {
 public:
  FrozenLayerResolver(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems)
      : node_(FindValueOrSection(root, kPath)),
        spec_(spec),
        problems_(problems),
        layers_(spec.model().config()),
        entry_of_layer_(layers_.size()) {}

  void Resolve() {
    for (int i = 0; i < spec_.model().frozen_layers_size(); ++i) AddEntry(static_cast<size_t>(i));
    if (!problems_.IsSound(kPath)) return;
    CheckSomethingIsTrained();
    CheckTie();
    spec_.mutable_model()->clear_frozen_layers();
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (IsFrozen(layer)) spec_.mutable_model()->add_frozen_layers(layers_.name(layer));
    }
  }

 private:
  bool IsFrozen(size_t layer) const { return entry_of_layer_[layer].has_value(); }

  void AddProblem(size_t entry, absl::string_view message, absl::string_view hint = "") {
    const bool has_node = node_.kind == SpecNode::Kind::kSequence && entry < node_.children.size();
    problems_.Add(has_node ? node_.children[entry] : node_, PathOfEntry(entry), message, hint);
  }

  void AddEntry(size_t index) {
    const std::string& entry = spec_.model().frozen_layers(static_cast<int>(index));
    const bool is_pattern = absl::StrContains(entry, '*');
    const std::optional<BlockRange> range = RangeOf(entry);
    if (range.has_value() && range->last < range->first) {
      return AddProblem(index, absl::StrCat(Quoted(entry), " ends before it begins"));
    }
    std::vector<size_t> layers;
    if (is_pattern) {
      layers = LayersLike(entry);
    } else if (range.has_value()) {
      layers = LayersOf(*range);
    } else if (const std::optional<size_t> found = layers_.Find(entry); found.has_value()) {
      layers = {*found};
    }
    if (layers.empty()) {
      return AddProblem(index,
                        absl::StrCat(Quoted(entry), is_pattern ? " matches no layer" : " is no layer of the model"),
                        is_pattern ? layers_.LayersText() : layers_.HintFor(entry, "layers are frozen whole"));
    }
    for (const size_t layer : layers) {
      if (!Freeze(layer, index)) return;
    }
  }

  std::vector<size_t> LayersLike(const std::string& pattern) const {
    std::vector<size_t> layers;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (MatchesPattern(pattern, layers_.name(layer))) layers.push_back(layer);
    }
    return layers;
  }

  // None when one of them is not there.
  std::vector<size_t> LayersOf(const BlockRange& range) const {
    if (range.last >= spec_.model().config().num_hidden_layers()) return {};
    std::vector<size_t> layers;
    for (uint32_t block = range.first; block <= range.last; ++block) {
      layers.push_back(*layers_.Find(absl::StrCat(kBlockPrefix, block)));
    }
    return layers;
  }

  bool Freeze(size_t layer, size_t entry) {
    if (!IsFrozen(layer)) {
      entry_of_layer_[layer] = entry;
      return true;
    }
    AddProblem(entry,
               absl::StrCat(layers_.name(layer), " is frozen by ", PathOfEntry(*entry_of_layer_[layer]), " already"),
               "name every layer once");
    return false;
  }

  void CheckSomethingIsTrained() {
    const bool all = std::all_of(entry_of_layer_.begin(), entry_of_layer_.end(),
                                 [](const std::optional<size_t>& entry) { return entry.has_value(); });
    if (all) problems_.Add(node_, kPath, "every layer is frozen, and nothing is left to train");
  }

  void CheckTie() {
    const size_t embedding = 0;
    const size_t head = layers_.size() - 1;
    if (!spec_.model().config().tie_word_embeddings() || IsFrozen(embedding) == IsFrozen(head)) return;
    const size_t frozen = IsFrozen(embedding) ? embedding : head;
    problems_.Add(node_, kPath,
                  absl::StrCat(layers_.name(frozen), " is frozen and ", layers_.name(frozen == head ? embedding : head),
                               " is not, and model.config.tie_word_embeddings makes one tensor of their matrices"),
                  "freeze both, or set model.config.tie_word_embeddings to false");
  }

  const SpecNode& node_;
  v1::JobSpec& spec_;
  SpecProblems& problems_;
  const LayerNameIndex layers_;
  std::vector<std::optional<size_t>> entry_of_layer_;  // the entry that freezes it
};

}  // namespace

void ParseFrozenLayers(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kSequence) {
    problems.Add(node, path, absl::StrCat("expected a list of layers, got ", DescribeKind(node)),
                 "write [transformer.wte, transformer.h.0-5]");
    return;
  }
  if (node.children.size() > kMaxListedLayers) {
    problems.Add(node, path, absl::StrCat(node.children.size(), " entries; at most ", kMaxListedLayers),
                 "write transformer.h.0-5, or use *");
    return;
  }
  size_t num_patterns = 0;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::optional<std::string> entry = ReadLayerName(node.children[i], PathOfEntry(i), problems);
    if (!entry.has_value()) continue;
    if (absl::StrContains(*entry, '*') && ++num_patterns > kMaxPatterns) {
      problems.Add(node.children[i], PathOfEntry(i), absl::StrCat("more than ", kMaxPatterns, " entries with *"));
      return;
    }
    spec.mutable_model()->add_frozen_layers(*entry);
  }
}

std::string PrintFrozenLayers(const v1::JobSpec& spec) {
  return absl::StrCat(
      "[",
      absl::StrJoin(spec.model().frozen_layers(), ", ",
                    [](std::string* out, const std::string& name) { absl::StrAppend(out, PrintText(name)); }),
      "]");
}

void ResolveFrozenLayers(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems) {
  if (spec.model().frozen_layers().empty()) return;
  if (!problems.AreSound({kPath, "model.config.num_hidden_layers", "model.config.tie_word_embeddings"})) return;
  FrozenLayerResolver(root, spec, problems).Resolve();
}

}  // namespace stagecoach
