#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_VALUES_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_VALUES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"
#include "coordinator/spec/spec_problems.h"

namespace stagecoach {

struct IntegerRange {
  uint64_t min = 0;
  uint64_t max = std::numeric_limits<uint64_t>::max();
};
struct NumberRange {
  double min = 0;
  double max = 1;
  bool above_min = false;  // min itself is out
  bool below_max = false;
};

// Strict readers of single values; each adds one problem when it returns nothing. A number never becomes text, nor text
// a number, and `yes` is neither.
std::optional<uint64_t> ReadInteger(const SpecNode& node, absl::string_view path, const IntegerRange& range,
                                    SpecProblems& problems);
std::optional<double> ReadNumber(const SpecNode& node, absl::string_view path, const NumberRange& range,
                                 SpecProblems& problems);
std::optional<bool> ReadBoolean(const SpecNode& node, absl::string_view path, SpecProblems& problems);
std::optional<std::string> ReadText(const SpecNode& node, absl::string_view path, SpecProblems& problems);

// A word of one of two lists separated by '|': `choices`, or `later`, the words that this build does not know yet ("*":
// all others).
std::optional<std::string> ReadChoice(const SpecNode& node, absl::string_view path, absl::string_view choices,
                                      absl::string_view later, SpecProblems& problems);

bool IsWord(const SpecNode& node, absl::string_view word);  // an unquoted scalar

// A job's name; an absolute path, with `file:` in front taken away. INVALID_ARGUMENT.
absl::StatusOr<std::string> CheckJobName(absl::string_view text);
absl::StatusOr<std::string> CheckPath(absl::string_view text);
// `never`, `auto`, or the name of a checkpoint. INVALID_ARGUMENT.
absl::StatusOr<std::string> CheckResume(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_VALUES_H_
