#include "coordinator/spec/job_spec_parser.h"

#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "common/quoted.h"
#include "coordinator/spec/frozen_layer_list.h"
#include "coordinator/spec/job_spec_rules.h"
#include "coordinator/spec/job_spec_schema.h"
#include "coordinator/spec/order_reader.h"
#include "coordinator/spec/schedule_value.h"
#include "coordinator/spec/skip_connection_list.h"
#include "coordinator/spec/spec_hints.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"

namespace stagecoach {
namespace {

// Walks a specification's tree twice: by its keys, for what should not be there, and by the schema, for the values.
class SpecReader {
 public:
  SpecReader(const SpecNode& root, const OrderReader& read_order, SpecProblems& problems)
      : root_(root), read_order_(read_order), problems_(problems) {}

  v1::JobSpec Read() {
    CheckKeys(root_, "");
    CheckEnvironment(root_, "");
    for (const SchemaField& field : JobSpecFields()) ReadField(field);
    ReadScheduleFile();
    FillDerivedValues(root_, spec_);
    ResolveFrozenLayers(root_, spec_, problems_);
    ResolveSkipConnections(root_, spec_, problems_);
    CheckJobSpecRules(root_, spec_, problems_);
    return std::move(spec_);
  }

 private:
  void CheckKeys(const SpecNode& section, absl::string_view section_path) {
    std::map<std::string, const SpecNode*> seen;
    for (const SpecNode& child : section.children) {
      const std::string path = JoinSpecPath(section_path, child.key);
      if (const auto [first, is_new] = seen.emplace(child.key, &child); !is_new) {
        problems_.AddAtKey(child, path, DuplicateKeyMessage(*first->second));
      } else {
        CheckKey(child, section_path, path);
      }
    }
  }

  void CheckKey(const SpecNode& child, absl::string_view section_path, const std::string& path) {
    const bool has_dot = absl::StrContains(child.key, '.');
    if (!has_dot && IsField(path)) return;
    if (!has_dot && IsSection(path)) {
      if (child.kind == SpecNode::Kind::kMap) {
        CheckKeys(child, path);
      } else {
        problems_.Add(child, path, absl::StrCat("expected a mapping, got ", DescribeKind(child)),
                      child.kind == SpecNode::Kind::kNull ? "give its keys, or leave it out" : "");
      }
      return;
    }
    if (const LaterKey* later = has_dot ? nullptr : FindLaterKey(path); later != nullptr) {
      problems_.AddAtKey(child, path, "is not supported yet", later->hint);
      return;
    }
    if (IsCredentialKey(child.key)) {
      problems_.AddAtKey(child, path, "certificates and credentials are not supported yet",
                         "use loopback, a Unix socket or a trusted network: docs/operations.md");
      return;
    }
    problems_.AddAtKey(child, path, "unknown key", HintForUnknownKey(section_path, child.key));
  }

  void CheckEnvironment(const SpecNode& node, const std::string& path) {
    if (absl::StrContains(node.scalar, "${")) {
      problems_.Add(node, path, "${...}: expansion of the environment is not supported yet", "write the value");
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      const SpecNode& child = node.children[i];
      const bool in_list = node.kind == SpecNode::Kind::kSequence;
      CheckEnvironment(child, in_list ? absl::StrCat(path, "[", i, "]") : JoinSpecPath(path, child.key));
    }
  }

  void ReadField(const SchemaField& field) {
    if (!problems_.IsSound(field.path)) return;
    const SpecNode* node = Find(field.path);
    if (!field.only_for.empty() && !problems_.IsSound("optimizer.name")) return;
    if (!AppliesTo(field, spec_)) {
      if (node != nullptr && !AnotherApplies(field.path)) AddWrongOptimizer(field, *node);
      return;
    }
    if (node != nullptr) {
      ParseField(field, *node, spec_, problems_);
    } else if (field.preset == kRequired) {
      AddMissing(field.path);
    } else if (absl::string_view(field.preset) != kDerived) {
      ReadPreset(field);
    }
  }

  void ReadScheduleFile() {
    constexpr absl::string_view kPath = "parallelism.schedule";
    v1::ParallelismSpec& parallelism = *spec_.mutable_parallelism();
    if (!problems_.IsSound(kPath) || !NamesScheduleFile(parallelism)) return;
    const SpecNode& node = *Find(kPath);
    if (read_order_ == nullptr) {
      problems_.Add(node, kPath, "a file, which whoever submits the job reads", "give its rows as a list");
      return;
    }
    absl::StatusOr<v1::ComputeTable> order = read_order_(parallelism.schedule());
    if (!order.ok()) {
      problems_.Add(node, kPath, order.status().message());
      return;
    }
    const std::string file = parallelism.schedule();
    parallelism.set_schedule(std::string(kOwnOrder));
    *parallelism.mutable_order() = *std::move(order);
    if (PrintSchedule(spec_).size() <= kMaxOrderBytes) return;
    problems_.Add(node, kPath, absl::StrCat(file, ": an order of more than ", kMaxOrderBytes, " bytes"));
  }

  const SpecNode* Find(absl::string_view path) const {
    const SpecNode* node = &root_;
    for (const absl::string_view key : absl::StrSplit(path, '.')) {
      node = node->Find(key);
      if (node == nullptr) return nullptr;
    }
    return node;
  }

  bool AnotherApplies(absl::string_view path) const {
    for (const SchemaField& field : JobSpecFields()) {
      if (field.path == path && AppliesTo(field, spec_)) return true;
    }
    return false;
  }

  void AddWrongOptimizer(const SchemaField& field, const SpecNode& node) {
    std::set<absl::string_view> keys;
    for (const SchemaField& other : JobSpecFields()) {
      if (!other.only_for.empty() && AppliesTo(other, spec_)) keys.insert(absl::StripPrefix(other.path, "optimizer."));
    }
    problems_.AddAtKey(
        node, field.path,
        absl::StrCat("a key of optimizer ", field.only_for, ", and optimizer.name is ", spec_.optimizer().name()),
        absl::StrCat(spec_.optimizer().name(), " has lr, ", absl::StrJoin(keys, ", ")));
  }

  // Names the topmost thing that is missing: `training`, once, rather than all that it must have.
  void AddMissing(absl::string_view path) {
    const SpecNode* node = &root_;
    std::string missing;
    for (const absl::string_view key : absl::StrSplit(path, '.')) {
      absl::StrAppend(&missing, missing.empty() ? "" : ".", key);
      const SpecNode* child = node->Find(key);
      if (child == nullptr) break;
      node = child;
    }
    problems_.Add(*node, missing, "is required and missing");
  }

  void ReadPreset(const SchemaField& field) {
    SpecNode node;
    std::vector<SpecError> errors;
    STAGECOACH_CHECK(ParseSpecTree(field.preset, node, errors));
    SpecProblems preset_problems;
    ParseField(field, node, spec_, preset_problems);
    STAGECOACH_CHECK(preset_problems.empty());
  }

  const SpecNode& root_;
  const OrderReader& read_order_;
  SpecProblems& problems_;
  v1::JobSpec spec_;
};

bool IsOverridePath(absl::string_view path) {
  for (const absl::string_view key : absl::StrSplit(path, '.')) {
    if (key.empty()) return false;
    for (const char c : key) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !absl::StrContains("_-/", c)) return false;
    }
  }
  return true;
}

// Reads the file and the overrides into one tree; false with errors appended.
bool ReadTree(absl::string_view text, const std::vector<SpecOverride>& overrides, SpecNode& root,
              std::vector<SpecError>& errors) {
  if (!ParseSpecTree(text, root, errors)) return false;
  if (root.kind != SpecNode::Kind::kMap) {
    const std::string message =
        root.kind == SpecNode::Kind::kNull
            ? "the specification is empty"
            : absl::StrCat("a specification is a mapping of keys to values, and this is ", DescribeKind(root));
    errors.push_back({root.line, root.column, "", message, "begin with version: 1"});
    return false;
  }
  bool applied = true;
  for (const SpecOverride& change : overrides) applied = ApplySpecOverride(change, root, errors) && applied;
  return applied;
}

}  // namespace

std::string FormatSpecError(absl::string_view file, const SpecError& error) {
  std::string text(file);
  if (error.line > 0) absl::StrAppend(&text, ":", error.line, ":", error.column);
  if (!error.path.empty()) absl::StrAppend(&text, ": ", error.line > 0 ? "" : "--set ", error.path);
  absl::StrAppend(&text, ": ", error.message);
  if (!error.hint.empty()) absl::StrAppend(&text, "; ", error.hint);
  return text;
}

absl::StatusOr<SpecOverride> ParseOverride(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2 || !IsOverridePath(parts[0])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--set ", Quoted(text), ": expected a dotted key, '=' and a YAML value, as in training.steps=100"));
  }
  return SpecOverride{parts[0], parts[1]};
}

absl::StatusOr<v1::JobSpec> ParseJobSpec(absl::string_view text, const std::vector<SpecOverride>& overrides,
                                         std::vector<SpecError>& errors) {
  return ParseJobSpecWith(text, overrides, nullptr, errors);
}

absl::StatusOr<v1::JobSpec> ParseJobSpecWith(absl::string_view text, const std::vector<SpecOverride>& overrides,
                                             const OrderReader& read_order, std::vector<SpecError>& errors) {
  SpecNode root;
  if (!ReadTree(text, overrides, root, errors)) return absl::InvalidArgumentError("the specification is not valid");
  SpecProblems problems;
  v1::JobSpec spec = SpecReader(root, read_order, problems).Read();
  if (problems.empty()) return spec;
  for (SpecError& error : problems.TakeSorted()) errors.push_back(std::move(error));
  return absl::InvalidArgumentError("the specification is not valid");
}

}  // namespace stagecoach
