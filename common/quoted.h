#ifndef STAGECOACH_COMMON_QUOTED_H_
#define STAGECOACH_COMMON_QUOTED_H_

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// Text of unknown origin (a tensor's name, a key) as it may be printed: in quotes, ASCII only, control characters
// escaped, cut after `max_bytes`, so that no file can steer a terminal or flood a log.
inline std::string Quoted(absl::string_view text, size_t max_bytes = 120) {
  if (text.size() <= max_bytes) return absl::StrCat("\"", absl::CEscape(text), "\"");
  return absl::StrCat("\"", absl::CEscape(text.substr(0, max_bytes)), "\"... (", text.size(), " bytes)");
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_QUOTED_H_
