#ifndef STAGECOACH_WORKER_DEVICE_DEVICE_FACTORY_H_
#define STAGECOACH_WORKER_DEVICE_DEVICE_FACTORY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace stagecoach {

struct DeviceOptions {
  int threads = 1;  // of compute; must be called, and used, from the thread that will enqueue
};

// Makes the device of a job. What a worker is given at start: the registry of back ends lives in the program that links
// them.
using DeviceFactory = std::function<absl::StatusOr<std::unique_ptr<Device>>(const DeviceOptions&)>;

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_DEVICE_FACTORY_H_
