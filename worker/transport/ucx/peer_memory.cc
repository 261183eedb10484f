#include "worker/transport/ucx/peer_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/transport/ucx/ucx_endpoint.h"

namespace stagecoach {
namespace {

// What the kernel's documentation calls it, where there is such a thing.
std::string PtraceScope() {
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope.empty() ? "" : absl::StrCat(", kernel.yama.ptrace_scope is ", scope);
}

absl::Status ForbiddenError(absl::string_view whose, const absl::Status& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the kernel does not let this process read ", whose, " memory (", why.message(), PtraceScope(),
                   "): workers need one user and, in containers, CAP_SYS_PTRACE or a profile that allows "
                   "process_vm_readv; or use mode shm"));
}

bool IsForbidden(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
}

}  // namespace

MemoryGuard::MemoryGuard() : value_(RandomToken()), word_(value_) {}

absl::Status PeerMemory::Prepare() {
  // Only with the Yama module at scope 1 is there anything to allow; elsewhere it is an error of no meaning.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const uint64_t word = 1;
  uint64_t copy = 0;
  const absl::Status read =
      PeerMemory(getpid()).Read(reinterpret_cast<uint64_t>(&word), std::as_writable_bytes(std::span(&copy, 1)));
  return read.ok() ? read : ForbiddenError("any other's", read);
}

absl::Status PeerMemory::Read(uint64_t address, std::span<std::byte> into) const {
  while (!into.empty()) {
    const iovec local = {into.data(), into.size()};
    const iovec remote = {reinterpret_cast<void*>(address), into.size()};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t size = process_vm_readv(process_, &local, 1, &remote, 1, 0);
    if (size < 0 && errno == ESRCH) return absl::NotFoundError("its process has ended");
    if (size < 0 && errno == EFAULT) return absl::InvalidArgumentError("it has no such memory");
    if (size < 0) return absl::ErrnoToStatus(errno, "process_vm_readv");
    // Less than was asked for: the next call says why.
    into = into.subspan(static_cast<size_t>(size));
    address += static_cast<uint64_t>(size);
  }
  return absl::OkStatus();
}

bool PeerMemory::IsGuarded(uint64_t address, uint64_t value) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  uint64_t found = 0;
  return Read(address, std::as_writable_bytes(std::span(&found, 1))).ok() && found == value;
}

absl::Status PeerMemory::Check(uint64_t address) const {
  uint64_t ignored = 0;
  const absl::Status read = Read(address, std::as_writable_bytes(std::span(&ignored, 1)));
  return IsForbidden(read) ? ForbiddenError("its", read) : absl::OkStatus();
}

}  // namespace stagecoach
