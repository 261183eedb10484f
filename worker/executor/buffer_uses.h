#ifndef STAGECOACH_WORKER_EXECUTOR_BUFFER_USES_H_
#define STAGECOACH_WORKER_EXECUTOR_BUFFER_USES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace stagecoach {

// Which instruction used each byte of an arena last. Slots may share bytes, so that a transfer into one waits for the
// device's work on another. Not thread-safe.
class BufferUses {
 public:
  // Instructions come in their order.
  void Use(uint64_t offset, uint64_t bytes, size_t instruction);
  // The newest use of any of these bytes; nullopt: there was none.
  std::optional<size_t> LastUse(uint64_t offset, uint64_t bytes) const;

 private:
  struct Range {
    uint64_t end = 0;
    size_t instruction = 0;
  };
  void SplitAt(uint64_t offset);

  std::map<uint64_t, Range> ranges_;  // disjoint, by start
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_EXECUTOR_BUFFER_USES_H_
