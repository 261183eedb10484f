#include "worker/device/reference/reference_device.h"

#include <unistd.h>

namespace stagecoach {
namespace {

DeviceCapabilities ReferenceCapabilities() {
  DeviceCapabilities capabilities;
  capabilities.kind = "reference";
  capabilities.compute_dtype = v1::DTYPE_F64;
  capabilities.numerics_class = "reference f64";
  capabilities.memory_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return capabilities;
}

}  // namespace

ReferenceDevice::ReferenceDevice() : HostDevice(ReferenceCapabilities()) {}

absl::StatusOr<std::unique_ptr<Device>> ReferenceDevice::Create(const DeviceOptions& /*options*/) {
  return std::unique_ptr<Device>(new ReferenceDevice());
}

}  // namespace stagecoach
