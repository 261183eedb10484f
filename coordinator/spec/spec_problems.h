#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_PROBLEMS_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_PROBLEMS_H_

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/spec/job_spec_parser.h"
#include "coordinator/spec/spec_node.h"

namespace stagecoach {

// Collects what is wrong with one specification, and knows which paths no longer deserve a closer look. Not
// thread-safe.
class SpecProblems {
 public:
  static constexpr size_t kMaxErrors = 50;

  // At a value, and at the key of a value.
  void Add(const SpecNode& node, absl::string_view path, absl::string_view message, absl::string_view hint = "");
  void AddAtKey(const SpecNode& node, absl::string_view path, absl::string_view message, absl::string_view hint = "");

  // True unless something is wrong at the path, above it or below it.
  bool IsSound(absl::string_view path) const;
  bool AreSound(std::initializer_list<absl::string_view> paths) const;

  bool empty() const { return errors_.empty(); }
  std::vector<SpecError> TakeSorted();

 private:
  void AddAt(int line, int column, absl::string_view path, absl::string_view message, absl::string_view hint);

  std::vector<SpecError> errors_;
  std::set<std::string> broken_paths_;
};

// "training" and "steps" to "training.steps", with a key that is no plain word quoted.
std::string JoinSpecPath(absl::string_view section, absl::string_view key);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_PROBLEMS_H_
