#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_WORKSPACE_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_WORKSPACE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace stagecoach {

// Memory that an operation uses inside a call, shared by the operations of one device, since they run one after
// another. It only grows, so that after the first step nothing is allocated. Owned by the device, used by its thread.
class CpuWorkspace {
 public:
  // At least `bytes`, 64-byte aligned, with whatever the last operation left there; valid until the next Reserve.
  // RESOURCE_EXHAUSTED.
  absl::StatusOr<std::byte*> Reserve(size_t bytes);

  size_t bytes() const { return memory_ == nullptr ? 0 : memory_->bytes(); }

 private:
  std::unique_ptr<Memory> memory_;
};

// Zeroed, 64-byte aligned host memory, in huge pages where the block is large enough and the system offers them: matrix
// multiplication walks many rows at once and is slowed by misses of the translation buffer otherwise.
// RESOURCE_EXHAUSTED with the size.
absl::StatusOr<std::unique_ptr<Memory>> AllocateHostMemory(size_t bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_WORKSPACE_H_
