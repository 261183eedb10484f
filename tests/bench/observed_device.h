#ifndef STAGECOACH_TESTS_BENCH_OBSERVED_DEVICE_H_
#define STAGECOACH_TESTS_BENCH_OBSERVED_DEVICE_H_

#include <functional>
#include <memory>

#include "worker/device/device_factory.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

enum class OperationFamily {
  kMatmul,
  kColumnSum,
  kAttention,
  kNorm,
  kElementwise,
  kEmbedding,
  kLoss,            // cross-entropy and its gradient
  kUpdate,          // AdamW, SGD
  kGradientReport,  // squared norms, digests
  kCopy,
};
inline constexpr int kNumOperationFamilies = 10;

// Sees every operation of a device before it is enqueued and after. Called by the device's thread.
class OperationObserver {
 public:
  virtual ~OperationObserver() = default;
  virtual void OnStart(OperationFamily family, const Matmul* matmul) = 0;  // null but for kMatmul
  virtual void OnEnd(OperationFamily family) = 0;
};
// `device` is the one that is observed; it outlives the observer, which may enqueue on it unseen.
using ObserverFactory = std::function<std::unique_ptr<OperationObserver>(Device& device)>;

// Makes CPU devices that do what CpuDevice does, each with an observer of its own.
DeviceFactory ObservedCpuDevices(ObserverFactory make_observer);

}  // namespace stagecoach

#endif  // STAGECOACH_TESTS_BENCH_OBSERVED_DEVICE_H_
