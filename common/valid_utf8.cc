#include "common/valid_utf8.h"

#include <algorithm>
#include <cstdint>

namespace stagecoach {
namespace {

// Bytes of the character that begins at `text`; 0: none does.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (bytes < 3) return bytes;
  // Longer than needed, a surrogate, or past the last code point.
  const bool wrong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                     (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : bytes;
}

}  // namespace

std::string ValidUtf8(absl::string_view text, size_t max_bytes) {
  std::string valid;
  valid.reserve(std::min(text.size(), max_bytes));
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (valid.size() + std::max<size_t>(bytes, 1) > max_bytes) break;
    if (bytes == 0) {
      valid.push_back('?');
    } else {
      valid.append(text.data(), bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return valid;
}

}  // namespace stagecoach
