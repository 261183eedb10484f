#include "worker/device/cpu/cpu_workspace.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/host_memory_size.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class AlignedMemory : public Memory {
 public:
  AlignedMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~AlignedMemory() override { std::free(data_); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;

  std::byte* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  std::byte* const data_;
  const size_t bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Memory>> AllocateHostMemory(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kTensorAlignment;
  // aligned_alloc wants a multiple of the alignment; zero bytes still get an address of their own. A size that would
  // overflow when rounded up, or that the system would promise and then not have, is refused first.
  const size_t wanted = bytes == 0 ? 1 : bytes;
  void* data = nullptr;
  if (wanted <= PTRDIFF_MAX - alignment && (alignment != kHugePage || wanted <= HostMemoryBytes())) {
    data = std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("device cpu: cannot allocate ", bytes,
                                                     " bytes of host memory; use more stages, smaller micro-batches or "
                                                     "a machine with more memory"));
  }
  // Advice only: without huge pages everything works, a little slower.
  if (alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  std::memset(data, 0, wanted);
  return std::make_unique<AlignedMemory>(static_cast<std::byte*>(data), bytes);
}

absl::StatusOr<std::byte*> CpuWorkspace::Reserve(size_t bytes) {
  if (memory_ == nullptr || memory_->bytes() < bytes) {
    memory_.reset();  // first, so that the old and the new block never exist together
    STAGECOACH_ASSIGN_OR_RETURN(memory_, AllocateHostMemory(bytes));
  }
  return memory_->data();
}

}  // namespace stagecoach
