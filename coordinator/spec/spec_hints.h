#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_HINTS_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_HINTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/spec/spec_node.h"

namespace stagecoach {

// What an unknown key of a section ("" for the top level) was probably meant to be: a name that another framework uses,
// a slip of the pen, or a key of another section. Empty: no idea.
std::string HintForUnknownKey(absl::string_view section, absl::string_view key);

// "did you mean path?" for the candidate nearest to the key, or empty.
std::string HintFromCandidates(absl::string_view key, const std::vector<absl::string_view>& candidates);

// For a key that is given again; `first` is where it was first.
std::string DuplicateKeyMessage(const SpecNode& first);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_HINTS_H_
