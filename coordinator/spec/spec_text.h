#ifndef STAGECOACH_COORDINATOR_SPEC_SPEC_TEXT_H_
#define STAGECOACH_COORDINATOR_SPEC_SPEC_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace stagecoach {

// Where text stops being printable UTF-8 (tabs and line ends are fine), and how. An empty problem: nowhere.
struct BadText {
  size_t offset = 0;
  std::string problem;
};
BadText FindBadText(absl::string_view text);

// Insertions, deletions, substitutions and swaps of neighbours that make `a` out of `b`.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_SPEC_SPEC_TEXT_H_
