#include "coordinator/spec/spec_text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stagecoach {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The bytes of the UTF-8 sequence at the start of `text`, and its code point; 0 bytes when it is none.
size_t DecodeUtf8(absl::string_view text, uint32_t& code_point) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  code_point = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
    code_point = code_point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  return code_point < kSmallest[length] || code_point > 0x10FFFF || surrogate ? 0 : length;
}

bool IsControl(uint32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

}  // namespace

BadText FindBadText(absl::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    uint32_t code_point = 0;
    const size_t length = DecodeUtf8(text.substr(offset), code_point);
    if (length == 0) {
      const int byte = static_cast<unsigned char>(text[offset]);
      return {offset, absl::StrCat("not UTF-8 (byte 0x", absl::Hex(byte, absl::kZeroPad2), ")")};
    }
    if (IsControl(code_point)) {
      return {offset, absl::StrCat("a control character (U+", absl::Hex(code_point, absl::kZeroPad4), ")")};
    }
    offset += length;
  }
  return {};
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace stagecoach
