#include "worker/executor/buffer_uses.h"

#include <algorithm>
#include <iterator>

namespace stagecoach {

void BufferUses::SplitAt(uint64_t offset) {
  auto after = ranges_.lower_bound(offset);
  if (after == ranges_.begin()) return;
  Range& before = std::prev(after)->second;
  if (before.end <= offset) return;
  ranges_.emplace_hint(after, offset, before);
  before.end = offset;
}

void BufferUses::Use(uint64_t offset, uint64_t bytes, size_t instruction) {
  if (bytes == 0) return;
  SplitAt(offset);
  SplitAt(offset + bytes);
  ranges_.erase(ranges_.lower_bound(offset), ranges_.lower_bound(offset + bytes));
  ranges_[offset] = {offset + bytes, instruction};
}

std::optional<size_t> BufferUses::LastUse(uint64_t offset, uint64_t bytes) const {
  std::optional<size_t> last;
  auto range = ranges_.lower_bound(offset);
  if (range != ranges_.begin() && std::prev(range)->second.end > offset) --range;
  for (; range != ranges_.end() && range->first < offset + bytes; ++range) {
    last = std::max(last.value_or(0), range->second.instruction);
  }
  return last;
}

}  // namespace stagecoach
