#ifndef STAGECOACH_COMMON_VALID_UTF8_H_
#define STAGECOACH_COMMON_VALID_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace stagecoach {

// The longest beginning of `text` that fits into `max_bytes` without a character cut in two, with a question mark for
// each byte that is no UTF-8: a message with any other text in a string field would not parse at its receiver.
std::string ValidUtf8(absl::string_view text, size_t max_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_VALID_UTF8_H_
