#ifndef STAGECOACH_COORDINATOR_PROGRAM_ARENA_CELLS_H_
#define STAGECOACH_COORDINATOR_PROGRAM_ARENA_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace stagecoach {

// Pieces of one worker's arena: how large each is and during which instructions of the program it holds something.
// Cells that never hold something at the same time may get the same bytes. Not thread-safe.
class ArenaCells {
 public:
  size_t Add(uint64_t bytes);
  void Grow(size_t cell, uint64_t bytes);  // to at least so many
  uint64_t bytes(size_t cell) const { return cells_[cell].bytes; }
  // Instructions [first, last], after those of earlier calls for the cell.
  void Use(size_t cell, size_t first, size_t last) { cells_[cell].uses.push_back({first, last}); }

  // Gives every cell its place, the largest first, each the lowest that is free for as long as it is used (the greedy
  // of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference"). Returns the bytes of the arena.
  // Beyond a few thousand cells they lie one after another, which takes no time. RESOURCE_EXHAUSTED: sizes that no
  // machine has.
  absl::StatusOr<uint64_t> Place();
  uint64_t offset(size_t cell) const { return cells_[cell].offset; }

 private:
  struct Interval {
    size_t first = 0;
    size_t last = 0;
  };
  struct Cell {
    uint64_t bytes = 0;  // a multiple of kTensorAlignment
    uint64_t offset = 0;
    std::vector<Interval> uses;
  };
  static bool Meet(const Cell& a, const Cell& b);
  uint64_t LowestFree(const Cell& cell, const std::vector<size_t>& placed) const;

  std::vector<Cell> cells_;
};

// Cells that users take turns in.
class CellPool {
 public:
  explicit CellPool(ArenaCells& cells) : cells_(cells) {}

  // The smallest free cell that is large enough; else the largest free one, which grows; else a new one.
  size_t Acquire(uint64_t bytes);
  void Release(size_t cell) { free_.emplace(cells_.bytes(cell), cell); }

 private:
  ArenaCells& cells_;
  std::set<std::pair<uint64_t, size_t>> free_;  // (bytes, cell)
};

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_PROGRAM_ARENA_CELLS_H_
