#ifndef STAGECOACH_COMMON_MEMORY_LAYOUT_H_
#define STAGECOACH_COMMON_MEMORY_LAYOUT_H_

#include <cstdint>

namespace stagecoach {

// Every slot, and every tensor inside a slot, starts at a multiple of this many bytes.
inline constexpr uint64_t kTensorAlignment = 64;

constexpr uint64_t AlignUp(uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_MEMORY_LAYOUT_H_
