#ifndef STAGECOACH_COMMON_SIZE_TEXT_H_
#define STAGECOACH_COMMON_SIZE_TEXT_H_

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/quoted.h"

namespace stagecoach {

// What is wrong with 64GiB as a number of bytes; empty: nothing that whoever multiplies it does not see. It looks for
// what an unsigned number would take for a very large one.
inline std::string SizeProblem(absl::string_view text) {
  constexpr size_t kMostDigits = 18;
  size_t num_digits = 0;
  while (num_digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[num_digits]))) ++num_digits;
  if (num_digits > 0 && num_digits <= kMostDigits) return "";
  return absl::StrCat(Quoted(text), " is no size: expected bytes, or 64GiB");
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_SIZE_TEXT_H_
