#ifndef STAGECOACH_WORKER_DEVICE_DEVICE_H_
#define STAGECOACH_WORKER_DEVICE_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/tensor.h"

namespace stagecoach {

class TensorOperations;

// Queue of device work, in order. Work is *enqueued* on a stream and *complete* at an event; the two words are never
// mixed. Owned by the Device. Used by one thread, but for Cancel.
class Stream {
 public:
  virtual ~Stream() = default;

  // From now on everything enqueued is refused with ABORTED, at the next operation, so a long computation ends soon.
  // Final: a new epoch has a new stream. Any thread.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  absl::Status CheckNotCancelled() const {
    if (cancelled_.load(std::memory_order_relaxed)) return absl::AbortedError("the stream was cancelled");
    return absl::OkStatus();
  }

 private:
  std::atomic<bool> cancelled_{false};
};

// A point in a stream. Complete when everything enqueued before it has finished; of a device that completes at enqueue,
// at once. Thread-safe: a transport asks it from its own thread.
class Event {
 public:
  virtual ~Event() = default;
  virtual absl::StatusOr<bool> IsComplete() const = 0;
};
using EventRef = std::shared_ptr<const Event>;

enum class MemoryKind { kDevice, kPinnedHost };

// An allocation, zeroed, 64-byte aligned. Freed on destruction, never while work that uses it is incomplete.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual size_t bytes() const = 0;
};

struct DeviceCapabilities {
  std::string kind;  // "cpu", "reference"
  bool completes_at_enqueue = false;
  bool host_addressable = false;
  v1::DType compute_dtype = v1::DTYPE_F32;  // of activations, parameters, gradients: f64 on the reference device
  // Equal strings <=> equal bits, at equal threads: kind, instruction set, library versions, what libraries choose
  // blocks by. The threads are the job's: whoever registers the device for one appends them.
  std::string numerics_class;
  size_t memory_bytes = 0;
};

// One device and the one thread that enqueues on it. Not thread-safe; events and Stream::Cancel are. A failed enqueue
// that is not the caller's mistake (INVALID_ARGUMENT) or a cancelled stream (ABORTED) is INTERNAL and final for the
// device.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceCapabilities& capabilities() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) = 0;  // RESOURCE_EXHAUSTED
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual absl::StatusOr<EventRef> Record(Stream& stream) = 0;
  virtual absl::Status EnqueueWait(Stream& stream, const EventRef& event) = 0;
  virtual absl::Status EnqueueCopy(Stream& stream, void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status WaitComplete(const EventRef& event, absl::Duration timeout) = 0;  // DEADLINE_EXCEEDED
  virtual TensorOperations& operations() = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_DEVICE_H_
