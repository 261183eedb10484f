#ifndef STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ATTENTION_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ATTENTION_OPERATIONS_H_

#include <cstdint>

#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Causal attention, with one row of scores at a time, as plain loops in float64. Stateless.
class ReferenceAttentionOperations : public AttentionOperations {
 public:
  absl::Status EnqueueForward(Stream& stream, const Attention& attention) override;
  absl::Status EnqueueBackward(Stream& stream, const AttentionGradient& gradient) override;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_REFERENCE_REFERENCE_ATTENTION_OPERATIONS_H_
