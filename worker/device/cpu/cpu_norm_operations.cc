#include "worker/device/cpu/cpu_norm_operations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/status_macros.h"
#include "worker/device/cpu/parallel_for.h"
#include "worker/device/operation_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/cpu_norm_operations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "worker/device/cpu/vector_loop-inl.h"

#ifndef STAGECOACH_WORKER_DEVICE_CPU_NORM_WEIGHT_GRADIENT
#define STAGECOACH_WORKER_DEVICE_CPU_NORM_WEIGHT_GRADIENT
namespace stagecoach {
namespace {
// Outside of the part that is compiled once per instruction set.
struct WeightGradient {
  const float* x;
  const float* mean_rstd;
  const float* dy;
  float* d_gamma;
  float* d_beta;
  size_t columns;  // of a row of x and dy
};

}  // namespace
}  // namespace stagecoach
#endif

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float Sum(FloatVector v) { return hn::GetLane(hn::SumOfLanes(FloatTag(), v)); }

void ForwardRow(const float* x, const float* gamma, const float* beta, float epsilon, size_t size, float* y,
                float* mean_rstd) {
  const FloatTag d;
  FloatVector sum = hn::Zero(d);
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR { sum = hn::Add(sum, memory.Load(x + i)); });
  const float mean = Sum(sum) / static_cast<float>(size);
  const FloatVector means = hn::Set(d, mean);
  // A second pass instead of sums of squares: the row is in the first-level cache, and nothing cancels.
  FloatVector squares = hn::Zero(d);
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const FloatVector difference = memory.ZeroOutside(hn::Sub(memory.Load(x + i), means));
    squares = hn::MulAdd(difference, difference, squares);
  });
  const float rstd = 1 / std::sqrt(Sum(squares) / static_cast<float>(size) + epsilon);
  const FloatVector rstds = hn::Set(d, rstd);
  ForEachVector(size, [=](size_t i, auto memory) HWY_ATTR {
    const FloatVector normal = hn::Mul(hn::Sub(memory.Load(x + i), means), rstds);
    memory.Store(hn::MulAdd(normal, memory.Load(gamma + i), memory.Load(beta + i)), y + i);
  });
  mean_rstd[0] = mean;
  mean_rstd[1] = rstd;
}

void BackwardInputRow(const float* x, const float* mean_rstd, const float* gamma, const float* dy, size_t size,
                      bool accumulate, float* dx) {
  const FloatTag d;
  const FloatVector mean = hn::Set(d, mean_rstd[0]);
  const FloatVector rstd = hn::Set(d, mean_rstd[1]);
  FloatVector sum_g = hn::Zero(d);
  FloatVector sum_gn = hn::Zero(d);
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const FloatVector g = hn::Mul(memory.Load(gamma + i), memory.Load(dy + i));
    const FloatVector normal = hn::Mul(hn::Sub(memory.Load(x + i), mean), rstd);
    sum_g = hn::Add(sum_g, g);
    sum_gn = hn::MulAdd(g, normal, sum_gn);  // 0 in lanes outside, where g is
  });
  const FloatVector mean_g = hn::Set(d, Sum(sum_g) / static_cast<float>(size));
  const FloatVector mean_gn = hn::Set(d, Sum(sum_gn) / static_cast<float>(size));
  ForEachVector(size, [=](size_t i, auto memory) HWY_ATTR {
    const FloatVector g = hn::Mul(memory.Load(gamma + i), memory.Load(dy + i));
    const FloatVector normal = hn::Mul(hn::Sub(memory.Load(x + i), mean), rstd);
    const FloatVector gradient = hn::Mul(rstd, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g)));
    memory.Store(accumulate ? hn::Add(memory.Load(dx + i), gradient) : gradient, dx + i);
  });
}

// Adds the sums of `rows` rows, in row order, to kVectors vectors of columns from `column`.
template <size_t kVectors, typename MemoryAccess>
HWY_INLINE void AddWeightBlock(const WeightGradient& gradient, size_t first_row, size_t rows, size_t column,
                               MemoryAccess memory) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVector gamma_sum[kVectors];
  FloatVector beta_sum[kVectors];
  for (size_t v = 0; v < kVectors; ++v) gamma_sum[v] = beta_sum[v] = hn::Zero(d);
  for (size_t row = first_row; row < first_row + rows; ++row) {
    const FloatVector mean = hn::Set(d, gradient.mean_rstd[2 * row]);
    const FloatVector rstd = hn::Set(d, gradient.mean_rstd[2 * row + 1]);
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t at = row * gradient.columns + column + v * lanes;
      const FloatVector normal = hn::Mul(hn::Sub(memory.Load(gradient.x + at), mean), rstd);
      const FloatVector dy = memory.Load(gradient.dy + at);
      gamma_sum[v] = hn::MulAdd(dy, normal, gamma_sum[v]);
      beta_sum[v] = hn::Add(beta_sum[v], dy);
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    float* const gamma = gradient.d_gamma + column + v * lanes;
    float* const beta = gradient.d_beta + column + v * lanes;
    memory.Store(hn::Add(memory.Load(gamma), gamma_sum[v]), gamma);
    memory.Store(hn::Add(memory.Load(beta), beta_sum[v]), beta);
  }
}

// A block of rows, for columns [first, last). A column's sum does not depend on which of the loops it falls into.
void BackwardWeightBlock(const WeightGradient& gradient, size_t first_row, size_t rows, size_t first, size_t last) {
  const size_t lanes = hn::Lanes(FloatTag());
  size_t column = first;
  for (; column + 4 * lanes <= last; column += 4 * lanes) {
    AddWeightBlock<4>(gradient, first_row, rows, column, WholeVector());
  }
  for (; column + lanes <= last; column += lanes) AddWeightBlock<1>(gradient, first_row, rows, column, WholeVector());
  if (column < last) AddWeightBlock<1>(gradient, first_row, rows, column, PartOfVector{last - column});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {
namespace {

HWY_EXPORT(ForwardRow);
HWY_EXPORT(BackwardInputRow);
HWY_EXPORT(BackwardWeightBlock);

constexpr int64_t kColumnsPerTask = 64;
constexpr int64_t kRowsPerBlock = 64;  // of a weight gradient: sums of so many rows are added to the accumulator
constexpr int64_t kElementsPerTask = 16384;

template <typename Body>
void ForEachRow(int threads, const Tensor& x, const Body& body) {
  const int64_t rows = std::max<int64_t>(1, kElementsPerTask / x.columns());
  ParallelFor(threads, (x.rows() + rows - 1) / rows, [&](int64_t task) {
    const int64_t last = std::min(x.rows(), (task + 1) * rows);
    for (int64_t row = task * rows; row < last; ++row) body(row);
  });
}

}  // namespace

absl::Status CpuNormOperations::EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                               double epsilon, const Tensor& y, const Tensor& mean_rstd) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(
      CheckNorm({.x = x, .y = y, .mean_rstd = mean_rstd, .gamma = &gamma, .beta = &beta}, v1::DTYPE_F32));
  STAGECOACH_RETURN_IF_ERROR(CheckNormEpsilon(epsilon));
  const int64_t columns = x.columns();
  ForEachRow(threads_, x, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(ForwardRow)
    (x.as<float>() + row * columns, gamma.as<float>(), beta.as<float>(), static_cast<float>(epsilon),
     static_cast<size_t>(columns), y.as<float>() + row * columns, mean_rstd.as<float>() + row * 2);
  });
  return absl::OkStatus();
}

absl::Status CpuNormOperations::EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd,
                                                     const Tensor& gamma, const Tensor& dy, bool accumulate,
                                                     const Tensor& dx) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckNorm({.x = x, .y = dy, .mean_rstd = mean_rstd, .gamma = &gamma}, v1::DTYPE_F32));
  STAGECOACH_RETURN_IF_ERROR(CheckNorm({.x = x, .y = dx, .mean_rstd = mean_rstd}, v1::DTYPE_F32));
  const int64_t columns = x.columns();
  ForEachRow(threads_, x, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(BackwardInputRow)
    (x.as<float>() + row * columns, mean_rstd.as<float>() + row * 2, gamma.as<float>(), dy.as<float>() + row * columns,
     static_cast<size_t>(columns), accumulate, dx.as<float>() + row * columns);
  });
  return absl::OkStatus();
}

absl::Status CpuNormOperations::EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd,
                                                      const Tensor& dy, const Tensor& d_gamma, const Tensor& d_beta) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(
      CheckNorm({.x = x, .y = dy, .mean_rstd = mean_rstd, .d_gamma = &d_gamma, .d_beta = &d_beta}, v1::DTYPE_F32));
  const int64_t columns = x.columns();
  ParallelFor(threads_, (columns + kColumnsPerTask - 1) / kColumnsPerTask, [&](int64_t task) {
    const int64_t last = std::min(columns, (task + 1) * kColumnsPerTask);
    for (int64_t row = 0; row < x.rows(); row += kRowsPerBlock) {
      HWY_DYNAMIC_DISPATCH(BackwardWeightBlock)
      ({x.as<float>(), mean_rstd.as<float>(), dy.as<float>(), d_gamma.as<float>(), d_beta.as<float>(),
        static_cast<size_t>(columns)},
       static_cast<size_t>(row), static_cast<size_t>(std::min(kRowsPerBlock, x.rows() - row)),
       static_cast<size_t>(task * kColumnsPerTask), static_cast<size_t>(last));
    }
  });
  return absl::OkStatus();
}

}  // namespace stagecoach

#endif  // HWY_ONCE
