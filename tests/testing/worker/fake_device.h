#ifndef STAGECOACH_TESTS_TESTING_WORKER_FAKE_DEVICE_H_
#define STAGECOACH_TESTS_TESTING_WORKER_FAKE_DEVICE_H_

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "common/check.h"
#include "worker/device/device.h"

namespace stagecoach {

// Host memory, no operations. With `asynchronous` it claims to complete later and to be out of the host's reach; the
// work itself is done at enqueue, and an event is complete from the second time that it is asked, or once waited for.
class FakeDevice final : public Device {
 public:
  explicit FakeDevice(bool asynchronous = false) {
    capabilities_.kind = "fake";
    capabilities_.completes_at_enqueue = !asynchronous;
    capabilities_.host_addressable = !asynchronous;
  }

  class FakeEvent final : public Event {
   public:
    explicit FakeEvent(bool complete) : complete_(complete) {}
    absl::StatusOr<bool> IsComplete() const override {
      asked_.store(true);
      return complete_.exchange(true);
    }
    bool asked() const { return asked_.load(); }

   private:
    mutable std::atomic<bool> complete_;
    mutable std::atomic<bool> asked_{false};
  };

  const DeviceCapabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override {
    if (kind == MemoryKind::kPinnedHost) ++num_pinned_allocations;
    return std::make_unique<HostMemory>(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return std::make_unique<Stream>(); }
  absl::StatusOr<EventRef> Record(Stream& stream) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    events.push_back(std::make_shared<FakeEvent>(capabilities_.completes_at_enqueue));
    return events.back();
  }
  absl::Status EnqueueWait(Stream& stream, const EventRef& /*event*/) override { return stream.CheckNotCancelled(); }
  absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) override {
    if (const absl::Status status = stream.CheckNotCancelled(); !status.ok()) return status;
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) override {
    ++num_waits;
    if (!completes.load()) {
      absl::SleepFor(timeout);
      return absl::DeadlineExceededError("the device does not complete");
    }
    return event == nullptr ? absl::InvalidArgumentError("no event") : absl::OkStatus();
  }
  TensorOperations& operations() override {
    STAGECOACH_CHECK(false);
    std::abort();
  }

  int num_pinned_allocations = 0;
  std::vector<std::shared_ptr<FakeEvent>> events;  // all that were recorded
  std::atomic<int> num_waits{0};
  std::atomic<bool> completes{true};  // false: WaitComplete times out

 private:
  class HostMemory final : public Memory {
   public:
    explicit HostMemory(size_t bytes) : storage_(bytes + 64), bytes_(bytes) {}
    std::byte* data() const override {
      const auto address = reinterpret_cast<uintptr_t>(storage_.data());
      return const_cast<std::byte*>(storage_.data()) + (64 - address % 64) % 64;
    }
    size_t bytes() const override { return bytes_; }

   private:
    std::vector<std::byte> storage_;
    size_t bytes_;
  };

  DeviceCapabilities capabilities_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_TESTING_WORKER_FAKE_DEVICE_H_
