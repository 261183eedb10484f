#include "worker/device/cpu/column_sum.h"

#include <algorithm>

#include "worker/device/cpu/parallel_for.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/column_sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {

constexpr int64_t kRowsPerBlock = 64;

// to += sum over rows of a block; four rows a time, so that `to` is loaded and stored less often.
HWY_INLINE void AddRows(const float* rows, int64_t stride, int64_t num_rows, size_t columns, float* to) {
  int64_t row = 0;
  for (; row + 4 <= num_rows; row += 4) {
    const float* r = rows + row * stride;
    ForEachVector(columns, [=](size_t i, auto memory) HWY_ATTR {
      const FloatVector low = hn::Add(memory.Load(r + i), memory.Load(r + stride + i));
      const FloatVector high = hn::Add(memory.Load(r + 2 * stride + i), memory.Load(r + 3 * stride + i));
      memory.Store(hn::Add(memory.Load(to + i), hn::Add(low, high)), to + i);
    });
  }
  for (; row < num_rows; ++row) {
    const float* r = rows + row * stride;
    ForEachVector(columns, [=](size_t i, auto memory)
                               HWY_ATTR { memory.Store(hn::Add(memory.Load(to + i), memory.Load(r + i)), to + i); });
  }
}

void AddColumnSumsOfTask(const float* rows, int64_t stride, int64_t num_rows, int64_t columns, float* sum) {
  float total[kColumnsPerTask] = {};
  float block[kColumnsPerTask];
  for (int64_t row = 0; row < num_rows; row += kRowsPerBlock) {
    std::fill_n(block, columns, 0.0f);
    AddRows(rows + row * stride, stride, std::min(kRowsPerBlock, num_rows - row), static_cast<size_t>(columns), block);
    AddRows(block, 0, 1, static_cast<size_t>(columns), total);
  }
  AddRows(total, 0, 1, static_cast<size_t>(columns), sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {

HWY_EXPORT(AddColumnSumsOfTask);

void AddColumnSums(int threads, const float* rows, int64_t num_rows, int64_t columns, float* sum) {
  const auto add = HWY_DYNAMIC_DISPATCH(AddColumnSumsOfTask);
  ParallelFor(threads, (columns + kColumnsPerTask - 1) / kColumnsPerTask, [&](int64_t task) {
    const int64_t first = task * kColumnsPerTask;
    add(rows + first, columns, num_rows, std::min(kColumnsPerTask, columns - first), sum + first);
  });
}

}  // namespace stagecoach

#endif  // HWY_ONCE
