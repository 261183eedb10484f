#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_NODE_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_NODE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/spec/job_spec_parser.h"

namespace stagecoach {

inline constexpr size_t kMaxSpecBytes = 1 << 20;
inline constexpr size_t kMaxSpecDepth = 16;
inline constexpr size_t kMaxSpecNodes = 100'000;  // after the expansion of aliases
inline constexpr size_t kMaxSpecAliases = 100;

// A value in a YAML document, with what it takes to say where it stands. A tree: aliases are copied.
struct SpecNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  // 1-based; 0: from --set
  int column = 0;
  bool quoted = false;               // kScalar
  std::string scalar;                // kScalar
  std::vector<SpecNode> children;    // kSequence, kMap
  std::string key;                   // as a child of a map
  int key_line = 0, key_column = 0;  // likewise

  const SpecNode* Find(absl::string_view child_key) const;  // the first; null: none, or not a map
  SpecNode* Find(absl::string_view child_key);
};

// Reads one YAML document. False, with an error appended: larger than the limits above, not UTF-8, control characters,
// not YAML, none or several documents, tags, keys that are not text. Never throws.
bool ParseSpecTree(absl::string_view text, SpecNode& root, std::vector<SpecError>& errors);

// Sets the value at a dotted path under `root`, a map, making maps on the way. False, with an error appended: the value
// is not YAML, or the path leads through something that is not a map.
bool ApplySpecOverride(const SpecOverride& change, SpecNode& root, std::vector<SpecError>& errors);

// "a scalar", "a list", ...: for messages.
absl::string_view DescribeKind(const SpecNode& node);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_NODE_H_
