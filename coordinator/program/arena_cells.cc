#include "coordinator/program/arena_cells.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"

namespace stagecoach {
namespace {

// Far above any machine; keeps sums from overflowing.
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 56;
constexpr size_t kMaxSharedCells = 4096;

}  // namespace

size_t ArenaCells::Add(uint64_t bytes) {
  cells_.emplace_back();
  Grow(cells_.size() - 1, bytes);
  return cells_.size() - 1;
}

void ArenaCells::Grow(size_t cell, uint64_t bytes) {
  // What is larger is refused by Place.
  const uint64_t aligned = AlignUp(std::min(bytes, kMaxArenaBytes + 1));
  cells_[cell].bytes = std::max(cells_[cell].bytes, aligned);
}

bool ArenaCells::Meet(const Cell& a, const Cell& b) {
  auto one = a.uses.begin();
  auto other = b.uses.begin();
  while (one != a.uses.end() && other != b.uses.end()) {
    if (one->last < other->first) {
      ++one;
    } else if (other->last < one->first) {
      ++other;
    } else {
      return true;
    }
  }
  return false;
}

// `placed` is sorted by offset.
uint64_t ArenaCells::LowestFree(const Cell& cell, const std::vector<size_t>& placed) const {
  uint64_t offset = 0;
  for (const size_t other : placed) {
    const Cell& taken = cells_[other];
    if (taken.offset + taken.bytes <= offset || !Meet(cell, taken)) continue;
    if (taken.offset >= offset + cell.bytes) break;
    offset = taken.offset + taken.bytes;
  }
  return offset;
}

absl::StatusOr<uint64_t> ArenaCells::Place() {
  std::vector<size_t> order(cells_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return cells_[a].bytes > cells_[b].bytes; });
  std::vector<size_t> placed;
  uint64_t end = 0;
  for (const size_t index : order) {
    Cell& cell = cells_[index];
    cell.offset = cells_.size() > kMaxSharedCells ? end : LowestFree(cell, placed);
    end = std::max(end, cell.offset + cell.bytes);
    if (end > kMaxArenaBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the slots of one worker need more than ", kMaxArenaBytes, " bytes; use smaller micro-batches"));
    }
    const auto behind =
        std::upper_bound(placed.begin(), placed.end(), cell.offset,
                         [this](uint64_t offset, size_t other) { return offset < cells_[other].offset; });
    placed.insert(behind, index);
  }
  return end;
}

size_t CellPool::Acquire(uint64_t bytes) {
  if (free_.empty()) return cells_.Add(bytes);
  auto found = free_.lower_bound({AlignUp(bytes), 0});
  if (found == free_.end()) found = std::prev(free_.end());
  const size_t cell = found->second;
  free_.erase(found);
  cells_.Grow(cell, bytes);
  return cell;
}

}  // namespace stagecoach
