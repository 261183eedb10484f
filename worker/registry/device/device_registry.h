#ifndef STAGECOACH_WORKER_REGISTRY_DEVICE_DEVICE_REGISTRY_H_
#define STAGECOACH_WORKER_REGISTRY_DEVICE_DEVICE_REGISTRY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/device_factory.h"

namespace stagecoach {

// The devices that this program is linked with; of workers whose stages are simulated, the one that has their state.
// NOT_FOUND names them.
absl::StatusOr<DeviceFactory> FindDevice(absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_REGISTRY_DEVICE_DEVICE_REGISTRY_H_
