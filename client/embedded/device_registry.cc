#include "client/embedded/device_registry.h"

#include "absl/strings/str_cat.h"
#include "worker/device/cpu/cpu_device.h"

namespace stagecoach {

absl::StatusOr<DeviceFactory> FindDevice(absl::string_view name) {
  if (name == "cpu") return DeviceFactory(CpuDevice::Create);
  return absl::NotFoundError(absl::StrCat("no device \"", name, "\" in this build; there is cpu"));
}

}  // namespace stagecoach
