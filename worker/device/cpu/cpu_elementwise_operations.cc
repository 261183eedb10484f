#include "worker/device/cpu/cpu_elementwise_operations.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "common/status_macros.h"
#include "worker/device/cpu/dropout_constants.h"
#include "worker/device/cpu/parallel_for.h"
#include "worker/device/normal_noise.h"
#include "worker/device/operation_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/cpu_elementwise_operations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "worker/device/cpu/exp-inl.h"
#include "worker/device/cpu/philox-inl.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace {

// 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)) with 2u = x (kLinear + kCubic x^2).
constexpr float kLinear = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.0713548163f;   // 0.044715 kLinear

// Beyond 9 the exponential is below half a unit of the last place of 1, and the cubic must not overflow. The order of
// operands keeps NaN: of a NaN and a number, x86 takes the second.
HWY_INLINE FloatVector ClampForGelu(FloatVector x) {
  const FloatTag d;
  return hn::Max(hn::Set(d, -9.0f), hn::Min(hn::Set(d, 9.0f), x));
}

HWY_INLINE FloatVector GeluSigmoid(FloatVector x, FloatVector x_squared) {
  const FloatTag d;
  const FloatVector one = hn::Set(d, 1.0f);
  const FloatVector slope = hn::MulAdd(x_squared, hn::Set(d, kCubic), hn::Set(d, kLinear));
  return hn::Div(one, hn::Add(one, ExpInRange(d, hn::Neg(hn::Mul(x, slope)))));
}

void Gelu(const float* x, float* y, size_t size) {
  ForEachVector(size, [=](size_t i, auto memory) HWY_ATTR {
    const FloatVector in = memory.Load(x + i);
    const FloatVector clamped = ClampForGelu(in);
    memory.Store(hn::Mul(in, GeluSigmoid(clamped, hn::Mul(clamped, clamped))), y + i);
  });
}

// d/dx (x s(2u)) = s + x s (1 - s) (2u)', (2u)' = kLinear + 3 kCubic x^2.
void GeluGradient(const float* x, const float* dy, float* dx, size_t size) {
  ForEachVector(size, [=](size_t i, auto memory) HWY_ATTR {
    const FloatTag d;
    const FloatVector in = ClampForGelu(memory.Load(x + i));
    const FloatVector squared = hn::Mul(in, in);
    const FloatVector s = GeluSigmoid(in, squared);
    const FloatVector slope = hn::MulAdd(squared, hn::Set(d, 3 * kCubic), hn::Set(d, kLinear));
    const FloatVector change = hn::Mul(hn::Mul(in, slope), hn::NegMulAdd(s, s, s));
    memory.Store(hn::Mul(memory.Load(dy + i), hn::Add(s, change)), dx + i);
  });
}

void Add(const float* a, const float* b, float* sum, size_t size) {
  ForEachVector(size, [=](size_t i, auto memory)
                          HWY_ATTR { memory.Store(hn::Add(memory.Load(a + i), memory.Load(b + i)), sum + i); });
}

// One block of one sample; its first element is `first`, a multiple of four times any vector's lanes.
void DropoutAdd(const float* x, const float* residual, float* y, size_t size, uint64_t first,
                const DropoutConstants& dropout) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> word;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN uint32_t words[4 * hn::MaxLanes(FloatTag())];
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const size_t part = i / lanes % 4;
    if (part == 0) PhiloxWords(word, (first + i) / 4, dropout.key, words);
    const auto dropped = hn::Lt(hn::Load(word, words + part * lanes), hn::Set(word, dropout.threshold));
    const FloatVector scaled = hn::Mul(memory.Load(x + i), hn::Set(d, dropout.scale));
    const FloatVector kept = hn::IfThenZeroElse(hn::RebindMask(d, dropped), scaled);
    memory.Store(residual == nullptr ? kept : hn::Add(kept, memory.Load(residual + i)), y + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {
namespace {

HWY_EXPORT(Gelu);
HWY_EXPORT(GeluGradient);
HWY_EXPORT(Add);
HWY_EXPORT(DropoutAdd);

// Elements of a task: small enough to share out, large enough to hide the call; a multiple of any vector.
constexpr int64_t kBlock = 16384;

// body(first, size) over blocks of [0, elements).
template <typename Body>
void ForEachBlock(int threads, int64_t elements, const Body& body) {
  ParallelFor(threads, (elements + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t first = block * kBlock;
    body(first, static_cast<size_t>(std::min(kBlock, elements - first)));
  });
}

}  // namespace

absl::Status CpuElementwiseOperations::EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("gelu", x, y, v1::DTYPE_F32));
  ForEachBlock(threads_, x.num_elements(), [&](int64_t first, size_t size) {
    HWY_DYNAMIC_DISPATCH(Gelu)(x.as<float>() + first, y.as<float>() + first, size);
  });
  return absl::OkStatus();
}

absl::Status CpuElementwiseOperations::EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy,
                                                           const Tensor& dx) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("gelu gradient", x, dy, dx, v1::DTYPE_F32));
  ForEachBlock(threads_, x.num_elements(), [&](int64_t first, size_t size) {
    HWY_DYNAMIC_DISPATCH(GeluGradient)
    (x.as<float>() + first, dy.as<float>() + first, dx.as<float>() + first, size);
  });
  return absl::OkStatus();
}

absl::Status CpuElementwiseOperations::EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSameMatrix("add", a, b, sum, v1::DTYPE_F32));
  ForEachBlock(threads_, a.num_elements(), [&](int64_t first, size_t size) {
    HWY_DYNAMIC_DISPATCH(Add)(a.as<float>() + first, b.as<float>() + first, sum.as<float>() + first, size);
  });
  return absl::OkStatus();
}

absl::Status CpuElementwiseOperations::EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout,
                                                         const Tensor& residual, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckDropoutAdd(x, dropout, residual, y, v1::DTYPE_F32));
  if (x.num_elements() == 0) return absl::OkStatus();
  if (dropout.probability == 0) {
    if (!residual.empty()) return EnqueueAdd(stream, x, residual, y);
    if (x.data != y.data) std::memmove(y.data, x.data, x.bytes());
    return absl::OkStatus();
  }
  const int64_t sample_size = x.num_elements() / x.dims[0];
  const int64_t blocks = (sample_size + kBlock - 1) / kBlock;  // of a sample
  ParallelFor(threads_, x.dims[0] * blocks, [&](int64_t task) {
    const int64_t sample = task / blocks;
    const int64_t first = task % blocks * kBlock;
    const int64_t at = sample * sample_size + first;
    const DropoutConstants constants = ConstantsOf(dropout, sample);
    HWY_DYNAMIC_DISPATCH(DropoutAdd)
    (x.as<float>() + at, residual.empty() ? nullptr : residual.as<float>() + at, y.as<float>() + at,
     static_cast<size_t>(std::min(kBlock, sample_size - first)), static_cast<uint64_t>(first), constants);
  });
  return absl::OkStatus();
}

absl::Status CpuElementwiseOperations::EnqueueFill(Stream& stream, const Tensor& t, double value) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckTensor("fill", "the tensor", t, v1::DTYPE_F32));
  ForEachBlock(threads_, t.num_elements(), [&](int64_t first, size_t size) {
    std::fill_n(t.as<float>() + first, size, static_cast<float>(value));
  });
  return absl::OkStatus();
}

absl::Status CpuElementwiseOperations::EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation,
                                                     uint64_t seed) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckTensor("normal noise", "the tensor", t, v1::DTYPE_F32));
  ForEachBlock(threads_, t.num_elements(), [&](int64_t first, size_t size) {
    for (size_t i = 0; i < size; i += 2) {
      const std::array<double, 2> pair = NormalPair(seed, (static_cast<uint64_t>(first) + i) / 2);
      float* const to = t.as<float>() + first + i;
      to[0] = static_cast<float>(standard_deviation * pair[0]);
      if (i + 1 < size) to[1] = static_cast<float>(standard_deviation * pair[1]);
    }
  });
  return absl::OkStatus();
}

}  // namespace stagecoach

#endif  // HWY_ONCE
