#include "worker/device/cpu/cpu_attention_operations.h"

#include <algorithm>
#include <cstdint>

#include "common/status_macros.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/parallel_for.h"
#include "worker/device/operation_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/cpu_attention_operations.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file once for every target.
#include "hwy/highway.h"
#include "worker/device/cpu/attention_backward-inl.h"
#include "worker/device/cpu/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {

void ForwardHead(const AttentionHead& head, float* workspace) { AttentionForwardPass(head, workspace).Run(); }
void BackwardHead(const AttentionHead& head, float* workspace) { AttentionBackwardPass(head, workspace).Run(); }

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {
namespace {

HWY_EXPORT(ForwardHead);
HWY_EXPORT(BackwardHead);

// Runs `pass` for every (sample, head) of `operation`, an Attention or an AttentionGradient, on a workspace of
// Layout's size per thread.
template <typename Layout, typename Operation, typename Pass>
absl::Status ForEachHead(const AttentionShape& shape, const Operation& operation, int threads, CpuWorkspace& workspace,
                         const Pass& pass) {
  const int64_t tasks = shape.samples * shape.heads;
  if (tasks == 0 || shape.seq == 0 || shape.head_size == 0) return absl::OkStatus();
  const int64_t floats = Layout(MakeAttentionHead(operation, 0, 0)).total;
  const auto used_threads = std::min<int64_t>(threads, tasks);
  STAGECOACH_ASSIGN_OR_RETURN(std::byte* const memory,
                              workspace.Reserve(static_cast<size_t>(used_threads * floats) * sizeof(float)));
  float* const floats_of_threads = reinterpret_cast<float*>(memory);
  ParallelForOnThreads(threads, tasks, [&](int64_t task, int thread) {
    pass(MakeAttentionHead(operation, task / shape.heads, task % shape.heads), floats_of_threads + thread * floats);
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status CpuAttentionOperations::EnqueueForward(Stream& stream, const Attention& attention) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAttention(attention, v1::DTYPE_F32));
  return ForEachHead<AttentionForwardLayout>(attention.shape, attention, threads_, *workspace_,
                                             HWY_DYNAMIC_DISPATCH(ForwardHead));
}

absl::Status CpuAttentionOperations::EnqueueBackward(Stream& stream, const AttentionGradient& gradient) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAttentionGradient(gradient, v1::DTYPE_F32));
  return ForEachHead<AttentionBackwardLayout>(gradient.forward.shape, gradient, threads_, *workspace_,
                                              HWY_DYNAMIC_DISPATCH(BackwardHead));
}

}  // namespace stagecoach

#endif  // HWY_ONCE
