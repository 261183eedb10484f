#include "worker/registry/device/device_registry.h"

#include "absl/strings/str_cat.h"
#include "common/simulated_device.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"

namespace stagecoach {

absl::StatusOr<DeviceFactory> FindDevice(absl::string_view name) {
  if (name == "cpu" || name == kSimulatedDevice) return DeviceFactory(CpuDevice::Create);
  if (name == "reference") return DeviceFactory(ReferenceDevice::Create);
  return absl::NotFoundError(
      absl::StrCat("no device \"", name, "\" in this build; there are cpu, reference and simulated"));
}

}  // namespace stagecoach
