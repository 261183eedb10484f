#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_DEVICE_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device_factory.h"
#include "worker/device/host_device.h"
#include "worker/device/reference/reference_attention_operations.h"
#include "worker/device/reference/reference_elementwise_operations.h"
#include "worker/device/reference/reference_matmul_operations.h"
#include "worker/device/reference/reference_norm_operations.h"
#include "worker/device/reference/reference_update_operations.h"
#include "worker/device/reference/reference_vocabulary_operations.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// The oracle: float64 tensors, plain loops, one thread. For tests, of other devices and of layers; it is slow, and says
// what an operation means. Threading as in Device.
class ReferenceDevice : public HostDevice, private TensorOperations {
 public:
  // A DeviceFactory; `options.threads` has no effect.
  static absl::StatusOr<std::unique_ptr<Device>> Create(const DeviceOptions& options);

  TensorOperations& operations() override { return *this; }

 private:
  ReferenceDevice();

  MatmulOperations& matmul() override { return matmul_; }
  AttentionOperations& attention() override { return attention_; }
  NormOperations& norm() override { return norm_; }
  ElementwiseOperations& elementwise() override { return elementwise_; }
  VocabularyOperations& vocabulary() override { return vocabulary_; }
  UpdateOperations& update() override { return update_; }

  ReferenceMatmulOperations matmul_;
  ReferenceAttentionOperations attention_;
  ReferenceNormOperations norm_;
  ReferenceElementwiseOperations elementwise_;
  ReferenceVocabularyOperations vocabulary_;
  ReferenceUpdateOperations update_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_DEVICE_H_
