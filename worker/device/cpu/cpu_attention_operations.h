#ifndef STAGECOACH_WORKER_DEVICE_CPU_CPU_ATTENTION_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_CPU_CPU_ATTENTION_OPERATIONS_H_

#include "absl/status/status.h"
#include "worker/device/cpu/cpu_workspace.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

// Attention of the CPU device: blocks of 64 queries x 64 keys, of which a thread holds one or two at a time, multiplied
// by register-blocked kernels on operands packed per head; blocks right of the diagonal are not computed. One
// (sample, head) is one task with a fixed order inside, so results do not depend on the number of threads. The
// workspace is linear in the sequence. Used by the device's thread.
class CpuAttentionOperations : public AttentionOperations {
 public:
  // `workspace` outlives this.
  CpuAttentionOperations(int threads, CpuWorkspace* workspace) : threads_(threads), workspace_(workspace) {}

  // Also RESOURCE_EXHAUSTED, when the workspace cannot grow.
  absl::Status EnqueueForward(Stream& stream, const Attention& attention) override;
  absl::Status EnqueueBackward(Stream& stream, const AttentionGradient& gradient) override;

 private:
  const int threads_;
  CpuWorkspace* const workspace_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_CPU_ATTENTION_OPERATIONS_H_
