#ifndef STAGECOACH_WORKER_DEVICE_HOST_DEVICE_H_
#define STAGECOACH_WORKER_DEVICE_HOST_DEVICE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "worker/device/device.h"

namespace stagecoach {

// What devices whose memory is the host's and whose work is complete when it is enqueued have in common: all but the
// operations. Allocate is thread-safe; for the rest see Device.
class HostDevice : public Device {
 public:
  const DeviceCapabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<EventRef> Record(Stream& stream) override;
  absl::Status EnqueueWait(Stream& stream, const EventRef& event) override;
  absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) override;
  absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) override;

 protected:
  // completes_at_enqueue and host_addressable are set here; no allocation is larger than memory_bytes.
  explicit HostDevice(DeviceCapabilities capabilities);

 private:
  DeviceCapabilities capabilities_;
  const EventRef complete_;  // the one event: an allocation for each Record would be one for each instruction
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_HOST_DEVICE_H_
