#include "coordinator/spec/skip_connection_list.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/quoted.h"
#include "coordinator/spec/job_spec_rules.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/layer_name_index.h"
#include "coordinator/spec/spec_hints.h"

namespace stagecoach {
namespace {

constexpr char kPath[] = "model.skip_connections";
constexpr char kFrom[] = "from";
constexpr char kTo[] = "to";
constexpr char kForm[] = "write {from: transformer.h.1, to: transformer.h.4}";

std::string PathOfEntry(size_t index) { return absl::StrCat(kPath, "[", index, "]"); }

void CheckKeys(const SpecNode& entry, const std::string& path, SpecProblems& problems) {
  std::map<std::string, const SpecNode*> seen;
  for (const SpecNode& child : entry.children) {
    const std::string child_path = JoinSpecPath(path, child.key);
    if (const auto [first, is_new] = seen.emplace(child.key, &child); !is_new) {
      problems.AddAtKey(child, child_path, DuplicateKeyMessage(*first->second));
    } else if (child.key != kFrom && child.key != kTo) {
      const std::string hint = HintFromCandidates(child.key, {kFrom, kTo});
      problems.AddAtKey(child, child_path, "unknown key", hint.empty() ? "a connection has from and to" : hint);
    }
  }
}

// Empty with a problem.
std::string ReadEnd(const SpecNode& entry, const std::string& path, absl::string_view key, SpecProblems& problems) {
  const std::string end_path = JoinSpecPath(path, key);
  const SpecNode* node = entry.Find(key);
  if (node != nullptr) return ReadLayerName(*node, end_path, problems).value_or("");
  problems.Add(entry, end_path, "is required and missing");
  return "";
}

class SkipConnectionResolver {
 public:
  SkipConnectionResolver(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems)
      : node_(FindValueOrSection(root, kPath)), spec_(spec), problems_(problems), layers_(spec.model().config()) {}

  void Resolve() {
    auto& connections = *spec_.mutable_model()->mutable_skip_connections();
    for (int i = 0; i < connections.size(); ++i) CheckEntry(static_cast<size_t>(i), connections[i]);
    if (!problems_.IsSound(kPath)) return;
    std::sort(connections.begin(), connections.end(),
              [this](const v1::SkipConnectionSpec& a, const v1::SkipConnectionSpec& b) {
                return *layers_.Find(a.from()) < *layers_.Find(b.from());
              });
  }

 private:
  using EntryOfLayer = std::map<size_t, size_t>;

  void AddProblem(size_t entry, absl::string_view key, absl::string_view message, absl::string_view hint = "") {
    const bool has_node = node_.kind == SpecNode::Kind::kSequence && entry < node_.children.size();
    const SpecNode& entry_node = has_node ? node_.children[entry] : node_;
    const SpecNode* end = key.empty() ? nullptr : entry_node.Find(key);
    const std::string path = key.empty() ? PathOfEntry(entry) : JoinSpecPath(PathOfEntry(entry), key);
    problems_.Add(end == nullptr ? entry_node : *end, path, message, hint);
  }

  void CheckEntry(size_t index, const v1::SkipConnectionSpec& connection) {
    const std::optional<size_t> from = FindEnd(index, kFrom, connection.from());
    const std::optional<size_t> to = FindEnd(index, kTo, connection.to());
    const bool from_is_good = from.has_value() && CheckStart(index, *from);
    const bool to_is_good = to.has_value() && CheckEnd(index, *to);
    if (from_is_good && to_is_good) CheckWay(index, *from, *to);
  }

  // Nothing, with a problem unless parsing had one.
  std::optional<size_t> FindEnd(size_t index, absl::string_view key, const std::string& name) {
    if (name.empty()) return std::nullopt;
    const std::optional<size_t> layer = layers_.Find(name);
    if (layer.has_value()) return layer;
    AddProblem(index, key, absl::StrCat(Quoted(name), " is no layer of the model"),
               layers_.HintFor(name, "whole layers are joined"));
    return std::nullopt;
  }

  bool CheckStart(size_t index, size_t layer) {
    if (layer + 1 == layers_.size()) {
      AddProblem(index, kFrom, absl::StrCat(layers_.name(layer), " is the last layer: nothing comes behind it"));
      return false;
    }
    CheckIsFirst(index, kFrom, layer, " is the start of ", "one connection starts at a layer", starts_);
    return true;
  }

  bool CheckEnd(size_t index, size_t layer) {
    if (layer == 0) {
      AddProblem(index, kTo, absl::StrCat(layers_.name(layer), " reads tokens, to which nothing can be added"));
      return false;
    }
    CheckIsFirst(index, kTo, layer, " is the end of ", "one connection ends at a layer", ends_);
    return true;
  }

  void CheckIsFirst(size_t index, absl::string_view key, size_t layer, absl::string_view is_end_of,
                    absl::string_view hint, EntryOfLayer& known) {
    const auto [first, is_new] = known.emplace(layer, index);
    if (is_new) return;
    AddProblem(index, key, absl::StrCat(layers_.name(layer), is_end_of, PathOfEntry(first->second), " already"), hint);
  }

  void CheckWay(size_t index, size_t from, size_t to) {
    if (to == from) {
      AddProblem(index, "", absl::StrCat("leads from ", layers_.name(from), " to itself"));
    } else if (to < from) {
      AddProblem(index, "", absl::StrCat("leads back, from ", layers_.name(from), " to ", layers_.name(to)),
                 "the lower layer is its start");
    } else if (to - from == 1) {
      AddProblem(index, "", absl::StrCat("leads past no layer, from ", layers_.name(from), " to ", layers_.name(to)),
                 "its end is at least two layers behind its start");
    }
  }

  const SpecNode& node_;
  v1::JobSpec& spec_;
  SpecProblems& problems_;
  const LayerNameIndex layers_;
  EntryOfLayer starts_, ends_;
};

}  // namespace

void ParseSkipConnections(const SpecNode& node, absl::string_view path, v1::JobSpec& spec, SpecProblems& problems) {
  if (node.kind != SpecNode::Kind::kSequence) {
    problems.Add(node, path, absl::StrCat("expected a list of connections, got ", DescribeKind(node)),
                 "write [{from: transformer.h.1, to: transformer.h.4}]");
    return;
  }
  if (node.children.size() > kMaxListedLayers) {
    problems.Add(node, path, absl::StrCat(node.children.size(), " entries; at most ", kMaxListedLayers));
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    const SpecNode& entry = node.children[i];
    const std::string entry_path = PathOfEntry(i);
    v1::SkipConnectionSpec& connection = *spec.mutable_model()->add_skip_connections();
    if (entry.kind != SpecNode::Kind::kMap) {
      problems.Add(entry, entry_path, absl::StrCat("expected a mapping, got ", DescribeKind(entry)), kForm);
      continue;
    }
    CheckKeys(entry, entry_path, problems);
    connection.set_from(ReadEnd(entry, entry_path, kFrom, problems));
    connection.set_to(ReadEnd(entry, entry_path, kTo, problems));
  }
}

std::string PrintSkipConnections(const v1::JobSpec& spec) {
  const auto print = [](std::string* out, const v1::SkipConnectionSpec& connection) {
    absl::StrAppend(out, "{from: ", PrintText(connection.from()), ", to: ", PrintText(connection.to()), "}");
  };
  return absl::StrCat("[", absl::StrJoin(spec.model().skip_connections(), ", ", print), "]");
}

void ResolveSkipConnections(const SpecNode& root, v1::JobSpec& spec, SpecProblems& problems) {
  if (spec.model().skip_connections().empty() || !problems.IsSound("model.config.num_hidden_layers")) return;
  SkipConnectionResolver(root, spec, problems).Resolve();
}

}  // namespace stagecoach
