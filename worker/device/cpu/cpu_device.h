#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_DEVICE_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/cpu/cpu_attention_operations.h"
#include "worker/device/cpu/cpu_elementwise_operations.h"
#include "worker/device/cpu/cpu_matmul_operations.h"
#include "worker/device/cpu/cpu_norm_operations.h"
#include "worker/device/cpu/cpu_update_operations.h"
#include "worker/device/cpu/cpu_vocabulary_operations.h"
#include "worker/device/cpu/cpu_workspace.h"
#include "worker/device/device_factory.h"
#include "worker/device/host_device.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// The processor as a device of float32 tensors: oneDNN and Highway choose the instruction set at run time. Work is
// complete when it is enqueued. Beside its tensors it holds one workspace that grows with the largest operation seen.
// Threading as in Device; several devices may live in one process, each with its thread and its OpenMP team.
class CpuDevice : public HostDevice, private TensorOperations {
 public:
  // A DeviceFactory. INVALID_ARGUMENT for fewer than one thread, FAILED_PRECONDITION on a processor that is too
  // old, INTERNAL when oneDNN does not start. The numerics
  // class is "cpu/<Highway target>/<oneDNN instruction set>/<oneDNN version>/<cache sizes>": oneDNN chooses its blocks,
  // so the order of its sums, by the sizes of the caches too. The number of threads, which belongs to a job, is
  // appended by whoever registers the device for one.
  static absl::StatusOr<std::unique_ptr<Device>> Create(const DeviceOptions& options);

  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes, MemoryKind kind) override;
  TensorOperations& operations() override { return *this; }

 private:
  CpuDevice(int threads, std::unique_ptr<CpuWorkspace> workspace, std::unique_ptr<CpuMatmulOperations> matmul);

  MatmulOperations& matmul() override { return *matmul_; }
  AttentionOperations& attention() override { return attention_; }
  NormOperations& norm() override { return norm_; }
  ElementwiseOperations& elementwise() override { return elementwise_; }
  VocabularyOperations& vocabulary() override { return vocabulary_; }
  UpdateOperations& update() override { return update_; }

  const std::unique_ptr<CpuWorkspace> workspace_;  // before its users
  const std::unique_ptr<CpuMatmulOperations> matmul_;
  CpuAttentionOperations attention_;
  CpuNormOperations norm_;
  CpuElementwiseOperations elementwise_;
  CpuVocabularyOperations vocabulary_;
  CpuUpdateOperations update_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_DEVICE_H_
