#include "worker/device/host_device.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

class HostMemory : public Memory {
 public:
  HostMemory(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~HostMemory() override { std::free(data_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  std::byte* const data_;
  const size_t bytes_;
};

class CompleteEvent : public Event {
 public:
  absl::StatusOr<bool> IsComplete() const override { return true; }
};

}  // namespace

HostDevice::HostDevice(DeviceCapabilities capabilities)
    : capabilities_(std::move(capabilities)), complete_(std::make_shared<const CompleteEvent>()) {
  capabilities_.completes_at_enqueue = true;
  capabilities_.host_addressable = true;
}

absl::StatusOr<std::unique_ptr<Memory>> HostDevice::Allocate(size_t bytes, MemoryKind /*kind*/) {
  // aligned_alloc wants a multiple of the alignment; zero bytes still get an address of their own. More than there is
  // would be promised by the system, and its absence noticed only when the bytes are written.
  const size_t rounded = bytes > capabilities_.memory_bytes ? 0 : AlignUp(bytes == 0 ? 1 : bytes);
  auto* const data = rounded == 0 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(kTensorAlignment, rounded));
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("device ", capabilities_.kind, ": cannot allocate ", bytes,
                     " bytes of host memory; use more stages or smaller micro-batches"));
  }
  std::memset(data, 0, rounded);
  return std::make_unique<HostMemory>(data, bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> HostDevice::CreateStream() { return std::make_unique<Stream>(); }

absl::StatusOr<EventRef> HostDevice::Record(Stream& stream) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  return complete_;
}

absl::Status HostDevice::EnqueueWait(Stream& stream, const EventRef& /*event*/) { return stream.CheckNotCancelled(); }

absl::Status HostDevice::EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  if (bytes > 0) std::memmove(to, from, bytes);
  return absl::OkStatus();
}

absl::Status HostDevice::WaitComplete(const EventRef& /*event*/, absl::Duration /*timeout*/) {
  return absl::OkStatus();
}

}  // namespace stagecoach
