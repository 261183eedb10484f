#include "worker/device/cpu/cpu_device.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/host_memory_size.h"
#include "common/status_macros.h"
#include "worker/device/cpu/instruction_set.h"

namespace stagecoach {
namespace {

std::string NumericsClass() {
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat("cpu/", InstructionSetName(), "/", dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()), "/",
                      version.major, ".", version.minor, ".", version.patch, "/", sysconf(_SC_LEVEL1_DCACHE_SIZE), "+",
                      sysconf(_SC_LEVEL2_CACHE_SIZE));
}

DeviceCapabilities CpuCapabilities() {
  DeviceCapabilities capabilities;
  capabilities.kind = "cpu";
  capabilities.compute_dtype = v1::DTYPE_F32;
  capabilities.numerics_class = NumericsClass();
  capabilities.memory_bytes = HostMemoryBytes();
  return capabilities;
}

}  // namespace

CpuDevice::CpuDevice(int threads, std::unique_ptr<CpuWorkspace> workspace, std::unique_ptr<CpuMatmulOperations> matmul)
    : HostDevice(CpuCapabilities()),
      workspace_(std::move(workspace)),
      matmul_(std::move(matmul)),
      attention_(threads, workspace_.get()),
      norm_(threads),
      elementwise_(threads),
      vocabulary_(threads),
      update_(threads) {}

absl::StatusOr<std::unique_ptr<Device>> CpuDevice::Create(const DeviceOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("device cpu: ", options.threads, " threads asked for; it needs at least one"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckInstructionSet());
  auto workspace = std::make_unique<CpuWorkspace>();
  STAGECOACH_ASSIGN_OR_RETURN(std::unique_ptr<CpuMatmulOperations> matmul,
                              CpuMatmulOperations::Create(options.threads, workspace.get()));
  return std::unique_ptr<Device>(new CpuDevice(options.threads, std::move(workspace), std::move(matmul)));
}

absl::StatusOr<std::unique_ptr<Memory>> CpuDevice::Allocate(size_t bytes, MemoryKind /*kind*/) {
  return AllocateHostMemory(bytes);
}

}  // namespace stagecoach
