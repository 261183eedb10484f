#ifndef STAGECOACH_COMMON_LOOP_BEAT_H_
#define STAGECOACH_COMMON_LOOP_BEAT_H_

#include <atomic>
#include <cstdint>

namespace stagecoach {

// How often an event loop has turned: whoever looks twice sees whether it still does. Thread-safe.
class LoopBeat {
 public:
  void Turn() { turns_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> turns_{0};
};

}  // namespace stagecoach

#endif  // STAGECOACH_COMMON_LOOP_BEAT_H_
