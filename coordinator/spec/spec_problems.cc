#include "coordinator/spec/spec_problems.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/quoted.h"

namespace stagecoach {
namespace {

bool IsUnder(absl::string_view path, absl::string_view ancestor) {
  if (ancestor.empty() || path == ancestor) return true;
  return absl::StartsWith(path, ancestor) && (path[ancestor.size()] == '.' || path[ancestor.size()] == '[');
}

}  // namespace

void SpecProblems::Add(const SpecNode& node, absl::string_view path, absl::string_view message,
                       absl::string_view hint) {
  // A value that is not there has no place of its own.
  const bool at_key = node.kind == SpecNode::Kind::kNull && node.key_line > 0;
  AddAt(at_key ? node.key_line : node.line, at_key ? node.key_column : node.column, path, message, hint);
}

void SpecProblems::AddAtKey(const SpecNode& node, absl::string_view path, absl::string_view message,
                            absl::string_view hint) {
  AddAt(node.key_line, node.key_column, path, message, hint);
}

void SpecProblems::AddAt(int line, int column, absl::string_view path, absl::string_view message,
                         absl::string_view hint) {
  broken_paths_.insert(std::string(path));
  if (errors_.size() >= kMaxErrors) return;
  errors_.push_back({line, column, std::string(path), std::string(message), std::string(hint)});
}

bool SpecProblems::IsSound(absl::string_view path) const {
  return std::none_of(broken_paths_.begin(), broken_paths_.end(),
                      [&](const std::string& broken) { return IsUnder(path, broken) || IsUnder(broken, path); });
}

bool SpecProblems::AreSound(std::initializer_list<absl::string_view> paths) const {
  return std::all_of(paths.begin(), paths.end(), [this](absl::string_view path) { return IsSound(path); });
}

std::vector<SpecError> SpecProblems::TakeSorted() {
  std::stable_sort(errors_.begin(), errors_.end(), [](const SpecError& a, const SpecError& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return std::move(errors_);
}

std::string JoinSpecPath(absl::string_view section, absl::string_view key) {
  const bool plain = !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-./", c);
  });
  return absl::StrCat(section, section.empty() ? "" : ".", plain ? std::string(key) : Quoted(key));
}

}  // namespace stagecoach
