#ifndef STAGECOACH_CLIENT_EMBEDDED_DEVICE_REGISTRY_H_
#define STAGECOACH_CLIENT_EMBEDDED_DEVICE_REGISTRY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/device_factory.h"

namespace stagecoach {

// The back ends that this program is linked with. NOT_FOUND names them.
absl::StatusOr<DeviceFactory> FindDevice(absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_EMBEDDED_DEVICE_REGISTRY_H_
