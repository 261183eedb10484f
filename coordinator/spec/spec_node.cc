#include "coordinator/spec/spec_node.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/quoted.h"
#include "coordinator/spec/spec_text.h"

namespace stagecoach {
namespace {

size_t CountNodes(const SpecNode& node) {
  size_t count = 1;
  for (const SpecNode& child : node.children) count += CountNodes(child);
  return count;
}

size_t Height(const SpecNode& node) {
  size_t height = 0;
  for (const SpecNode& child : node.children) height = std::max(height, Height(child));
  return height + 1;
}

// Makes the tree from yaml-cpp's events, which never expand an alias; so the limits hold before anything grows. After
// the first error it ignores the rest: yaml-cpp recurses at most 500 levels, and nothing is built for them. One use,
// one thread.
class TreeBuilder : public YAML::EventHandler {
 public:
  bool failed() const { return error_.has_value(); }
  const SpecError& error() const { return *error_; }
  bool has_root() const { return has_root_; }
  SpecNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_root_) Fail(mark, "a second document starts here; a specification is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (failed()) return;
    Attach(NodeAt(mark, SpecNode::Kind::kNull), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (failed() || !CheckTag(mark, tag)) return;
    if (const std::string problem = FindBadText(value).problem; !problem.empty()) {
      Fail(mark, absl::StrCat("a value with ", problem));
      return;
    }
    SpecNode node = NodeAt(mark, SpecNode::Kind::kScalar);
    node.quoted = tag == "!";
    node.scalar = value;
    Attach(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, SpecNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, SpecNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (failed()) return;
    if (++num_aliases_ > kMaxSpecAliases) {
      Fail(mark, absl::StrCat("more than ", kMaxSpecAliases, " aliases"));
      return;
    }
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      Fail(mark, "an alias inside the value that it stands for");
      return;
    }
    if (open_.size() + Height(found->second) > kMaxSpecDepth) {
      FailDepth(mark);
      return;
    }
    if (!Count(mark, CountNodes(found->second))) return;
    AttachCounted(SpecNode(found->second), 0);
  }

 private:
  struct OpenNode {
    SpecNode node;
    YAML::anchor_t anchor = 0;
    std::optional<SpecNode> key;  // of the value that comes next
  };

  static SpecNode NodeAt(const YAML::Mark& mark, SpecNode::Kind kind) {
    SpecNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void Fail(const YAML::Mark& mark, std::string message) {
    if (!failed()) error_ = SpecError{mark.line + 1, mark.column + 1, "", std::move(message), ""};
  }
  void FailDepth(const YAML::Mark& mark) { Fail(mark, absl::StrCat("nested deeper than ", kMaxSpecDepth, " levels")); }

  bool CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    Fail(mark, absl::StrCat("YAML tags are not accepted: ", Quoted(tag)));
    return false;
  }

  bool Count(const YAML::Mark& mark, size_t nodes) {
    num_nodes_ += nodes;
    if (num_nodes_ <= kMaxSpecNodes) return true;
    Fail(mark, absl::StrCat("more than ", kMaxSpecNodes, " values, aliases expanded"));
    return false;
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, SpecNode::Kind kind) {
    if (failed() || !CheckTag(mark, tag)) return;
    if (open_.size() >= kMaxSpecDepth) {
      FailDepth(mark);
      return;
    }
    open_.push_back({NodeAt(mark, kind), anchor, std::nullopt});
  }

  void Close() {
    if (failed()) return;
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(closed.node), closed.anchor);
  }

  void Attach(SpecNode node, YAML::anchor_t anchor) {
    const YAML::Mark mark = MarkOf(node);
    if (Count(mark, 1)) AttachCounted(std::move(node), anchor);
  }

  void AttachCounted(SpecNode node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      if (!Count(MarkOf(node), CountNodes(node))) return;
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      has_root_ = true;
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.kind == SpecNode::Kind::kMap && !parent.key.has_value()) {
      if (node.kind != SpecNode::Kind::kScalar) {
        Fail(MarkOf(node), absl::StrCat("a key must be text, and this is ", DescribeKind(node)));
        return;
      }
      parent.key = std::move(node);
      return;
    }
    if (parent.key.has_value()) {
      node.key = std::move(parent.key->scalar);
      node.key_line = parent.key->line;
      node.key_column = parent.key->column;
      parent.key.reset();
    }
    parent.node.children.push_back(std::move(node));
  }

  static YAML::Mark MarkOf(const SpecNode& node) {
    YAML::Mark mark;
    mark.line = node.line - 1;
    mark.column = node.column - 1;
    return mark;
  }

  std::optional<SpecError> error_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, SpecNode> anchors_;
  size_t num_nodes_ = 0;
  size_t num_aliases_ = 0;
  bool has_root_ = false;
  SpecNode root_;
};

bool Fail(std::vector<SpecError>& errors, int line, int column, std::string message, std::string hint = "") {
  errors.push_back({line, column, "", std::move(message), std::move(hint)});
  return false;
}

bool CheckText(absl::string_view text, std::vector<SpecError>& errors) {
  if (text.size() > kMaxSpecBytes) {
    return Fail(errors, 0, 0, absl::StrCat("the specification has ", text.size(), " bytes; at most ", kMaxSpecBytes));
  }
  const BadText bad = FindBadText(text);
  if (bad.problem.empty()) return true;
  const absl::string_view before = text.substr(0, bad.offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return Fail(errors, static_cast<int>(line), static_cast<int>(bad.offset - line_start) + 1, bad.problem);
}

bool FailOverride(const SpecOverride& change, absl::string_view message, std::vector<SpecError>& errors) {
  errors.push_back({0, 0, change.path, std::string(message), ""});
  return false;
}

SpecNode& FindOrAddChild(SpecNode& map, const std::string& key) {
  if (SpecNode* child = map.Find(key); child != nullptr) return *child;
  SpecNode added;
  added.key = key;
  map.children.push_back(std::move(added));
  return map.children.back();
}

void ForgetPosition(SpecNode& node) {
  node.line = node.column = node.key_line = node.key_column = 0;
  for (SpecNode& child : node.children) ForgetPosition(child);
}

void HandleDocuments(const std::string& text, TreeBuilder& builder) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  while (!builder.failed() && parser.HandleNextDocument(builder)) {
  }
}

}  // namespace

const SpecNode* SpecNode::Find(absl::string_view child_key) const {
  if (kind != Kind::kMap) return nullptr;
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const SpecNode& child) { return child.key == child_key; });
  return found == children.end() ? nullptr : &*found;
}

SpecNode* SpecNode::Find(absl::string_view child_key) {
  return const_cast<SpecNode*>(static_cast<const SpecNode*>(this)->Find(child_key));
}

bool ParseSpecTree(absl::string_view text, SpecNode& root, std::vector<SpecError>& errors) {
  if (!CheckText(text, errors)) return false;
  TreeBuilder builder;
  try {
    HandleDocuments(std::string(text), builder);
  } catch (const YAML::DeepRecursion& e) {
    if (!builder.failed()) {
      return Fail(errors, e.mark.line + 1, e.mark.column + 1,
                  absl::StrCat("nested deeper than ", kMaxSpecDepth, " levels"));
    }
  } catch (const YAML::Exception& e) {
    if (!builder.failed()) {
      return Fail(errors, e.mark.line + 1, e.mark.column + 1, absl::StrCat("not valid YAML: ", e.msg));
    }
  } catch (const std::exception& e) {
    return Fail(errors, 0, 0, absl::StrCat("not valid YAML: ", e.what()));
  }
  if (builder.failed()) {
    errors.push_back(builder.error());
    return false;
  }
  if (!builder.has_root()) return Fail(errors, 0, 0, "the specification is empty");
  root = builder.TakeRoot();
  return true;
}

bool ApplySpecOverride(const SpecOverride& change, SpecNode& root, std::vector<SpecError>& errors) {
  const std::vector<std::string> keys = absl::StrSplit(change.path, '.');
  if (keys.size() > kMaxSpecDepth) {
    return FailOverride(change, absl::StrCat("nested deeper than ", kMaxSpecDepth, " levels"), errors);
  }
  std::vector<SpecError> value_errors;
  SpecNode value;
  if (!ParseSpecTree(change.value, value, value_errors)) {
    return FailOverride(change, value_errors.empty() ? "" : value_errors.front().message, errors);
  }
  SpecNode* node = &root;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (node->kind == SpecNode::Kind::kNull) node->kind = SpecNode::Kind::kMap;
    if (node->kind != SpecNode::Kind::kMap) {
      const std::string parent = absl::StrJoin(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(i), ".");
      return FailOverride(change, absl::StrCat(parent, " is ", DescribeKind(*node), ": set it as a whole"), errors);
    }
    node = &FindOrAddChild(*node, keys[i]);
  }
  ForgetPosition(value);
  node->kind = value.kind;
  node->quoted = value.quoted;
  node->scalar = std::move(value.scalar);
  node->children = std::move(value.children);
  ForgetPosition(*node);
  return true;
}

absl::string_view DescribeKind(const SpecNode& node) {
  switch (node.kind) {
    case SpecNode::Kind::kNull:
      return "nothing";
    case SpecNode::Kind::kScalar:
      return "a single value";
    case SpecNode::Kind::kSequence:
      return "a list";
    case SpecNode::Kind::kMap:
      return "a mapping";
  }
  return "unknown";
}

}  // namespace stagecoach
