#ifndef STAGECOACH_WORKER_TRANSPORT_UCX_PEER_MEMORY_H_
#define STAGECOACH_WORKER_TRANSPORT_UCX_PEER_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace stagecoach {

// A word of the owner's memory by which readers know that what they have read beside it was meant for them: the owner
// clears it before it uses the memory for anything else. The value is random, so that neither another thing at the same
// address nor another process with the same id is taken for it.
class MemoryGuard {
 public:
  MemoryGuard();
  uint64_t value() const { return value_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(&word_); }
  void Clear() { word_.store(0); }

 private:
  const uint64_t value_;
  std::atomic<uint64_t> word_;
};

// The memory of another process of this host, which the kernel copies from at this one's call (process_vm_readv):
// nothing is asked of that process, so it may be stopped or dead. Never written.
class PeerMemory {
 public:
  // Lets the other processes of this user read this one's memory, as far as this one decides that. FAILED_PRECONDITION:
  // this process may read nobody's.
  static absl::Status Prepare();

  explicit PeerMemory(pid_t process) : process_(process) {}

  // OK, or as from the kernel: NOT_FOUND: no such process. INVALID_ARGUMENT: it has no such memory, or not all of it.
  // PERMISSION_DENIED, UNIMPLEMENTED: see Prepare.
  absl::Status Read(uint64_t address, std::span<std::byte> into) const;
  // Whether everything that was read before this call was what the owner of the guard meant.
  bool IsGuarded(uint64_t address, uint64_t value) const;
  // FAILED_PRECONDITION: the kernel does not let this process read that one. What else is wrong is not told.
  absl::Status Check(uint64_t address) const;

 private:
  pid_t process_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_TRANSPORT_UCX_PEER_MEMORY_H_
