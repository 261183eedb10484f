#ifndef STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_PATTERN_H_
#define STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_PATTERN_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "worker/transport/transport.h"

namespace stagecoach {

// What both ends of a transfer in the tests agree about.

// Bytes that tell a transfer and a place in it, in blocks that repeat; none is 0.
inline std::vector<std::byte> TransferPattern(size_t bytes, unsigned seed) {
  constexpr size_t kBlock = (size_t{64} << 10) + 1;  // no divisor of anything
  std::vector<std::byte> pattern(bytes);
  uint64_t state = seed + 1;
  for (size_t i = 0; i < std::min(bytes, kBlock); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    pattern[i] = static_cast<std::byte>(state >> 56) | std::byte{1};
  }
  for (size_t i = kBlock; i < bytes; i += kBlock) {
    std::copy_n(pattern.begin(), std::min(kBlock, bytes - i), pattern.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return pattern;
}

inline TransportFence ProcessFence(uint32_t rank, uint64_t epoch) {
  return {JobId("job"), Epoch(epoch), Incarnation(100 + rank)};
}

inline v1::ChannelSpec ProcessChannel(uint32_t from, uint32_t to) {
  v1::ChannelSpec spec;
  spec.set_from_stage(from);
  spec.set_to_stage(to);
  spec.set_from_worker_rank(from);
  spec.set_to_worker_rank(to);
  spec.set_num_slots(4);
  spec.set_kind(v1::CHANNEL_KIND_ACTIVATION);
  return spec;
}

inline TransferTag ProcessTag(uint32_t sequence) {
  return TransferTag::Of(v1::CHANNEL_KIND_ACTIVATION, StageIndex(0), MicroBatchIndex(sequence), Step(1));
}

// Returns when another thread has written the first byte of `buffer`, which was 0.
inline void WaitForFirstByte(std::vector<std::byte>& buffer) {
  const std::atomic_ref<std::byte> first(buffer.front());
  while (first.load() == std::byte{0}) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_CONFORMANCE_TRANSPORT_PATTERN_H_
