#include "worker/device/cpu/cpu_update_operations.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "common/status_macros.h"
#include "formats/tensor_digest.h"
#include "worker/device/cpu/parallel_for.h"
#include "worker/device/operation_checks.h"
#include "worker/device/update_steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/cpu_update_operations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace {

// a b + c rounded once, also where the instruction set has no such instruction: an update has the same bits everywhere.
HWY_INLINE FloatVector FusedMulAdd(FloatVector a, FloatVector b, FloatVector c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const FloatTag d;
  HWY_ALIGN float lanes[3][hn::MaxLanes(FloatTag())];
  hn::Store(a, d, lanes[0]);
  hn::Store(b, d, lanes[1]);
  hn::Store(c, d, lanes[2]);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[0][i] = std::fma(lanes[0][i], lanes[1][i], lanes[2][i]);
  return hn::Load(d, lanes[0]);
#endif
}

void AdamWBlock(const AdamWSteps& steps, float* parameter, const float* gradient, float* exp_avg, float* exp_avg_sq,
                size_t size) {
  const FloatTag d;
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const FloatVector g = hn::Mul(hn::Set(d, steps.gradient_factor), memory.Load(gradient + i));
    const FloatVector m =
        FusedMulAdd(hn::Set(d, steps.beta1), memory.Load(exp_avg + i), hn::Mul(hn::Set(d, steps.one_minus_beta1), g));
    const FloatVector v = FusedMulAdd(hn::Set(d, steps.beta2), memory.Load(exp_avg_sq + i),
                                      hn::Mul(hn::Set(d, steps.one_minus_beta2), hn::Mul(g, g)));
    const FloatVector divisor =
        FusedMulAdd(hn::Sqrt(v), hn::Set(d, steps.inverse_root_correction2), hn::Set(d, steps.epsilon));
    const FloatVector decayed = hn::Mul(hn::Set(d, steps.decay), memory.Load(parameter + i));
    memory.Store(FusedMulAdd(hn::Set(d, steps.minus_step_size), hn::Div(m, divisor), decayed), parameter + i);
    memory.Store(m, exp_avg + i);
    memory.Store(v, exp_avg_sq + i);
  });
}

void SgdBlock(const SgdSteps& steps, float* parameter, const float* gradient, float* momentum, size_t size) {
  const FloatTag d;
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const FloatVector p = memory.Load(parameter + i);
    const FloatVector scaled = hn::Mul(hn::Set(d, steps.gradient_factor), memory.Load(gradient + i));
    const FloatVector g = FusedMulAdd(hn::Set(d, steps.weight_decay), p, scaled);
    FloatVector direction = g;
    if (momentum != nullptr) {
      const FloatVector factor = hn::Set(d, steps.momentum);
      const FloatVector m = steps.first_update ? g : FusedMulAdd(factor, memory.Load(momentum + i), g);
      memory.Store(m, momentum + i);
      direction = steps.nesterov ? FusedMulAdd(factor, m, g) : m;
    }
    memory.Store(FusedMulAdd(hn::Set(d, steps.minus_learning_rate), direction, p), parameter + i);
  });
}

// In f64, where the square of an f32 is exact and cannot overflow: infinite or NaN only when an element is.
double SquaredNormBlock(const float* x, size_t size) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    const auto a = hn::PromoteTo(d, hn::LoadU(half, x + i));
    const auto b = hn::PromoteTo(d, hn::LoadU(half, x + i + lanes));
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// The other two constants of formats/tensor_digest.h's DigestWord.
constexpr uint64_t kPositionMultiplier = 0x9e3779b97f4a7c15ULL;
constexpr uint64_t kFinalMultiplier = 0x2545f4914f6cdd1dULL;

// Adds the DigestWord of words[0..size) at positions from `first` to sums[0] and sums[1].
void DigestBlock(const uint32_t* words, size_t size, uint64_t first, uint64_t* sums) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Rebind<uint32_t, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  const auto next = hn::Set(d, lanes * kPositionMultiplier);
  auto position = hn::Mul(hn::Iota(d, first + 1), hn::Set(d, kPositionMultiplier));
  hn::Vec<decltype(d)> sum[2] = {hn::Zero(d), hn::Zero(d)};
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto mixed = hn::Xor(position, hn::PromoteTo(d, hn::LoadU(half, words + i)));
    for (size_t which = 0; which < 2; ++which) {
      auto x = hn::Mul(mixed, hn::Set(d, kDigestMultipliers[which]));
      x = hn::Xor(x, hn::ShiftRight<32>(x));
      x = hn::Mul(x, hn::Set(d, kFinalMultiplier));
      sum[which] = hn::Add(sum[which], hn::Xor(x, hn::ShiftRight<29>(x)));
    }
    position = hn::Add(position, next);
  }
  for (size_t which = 0; which < 2; ++which) {
    // Lane by lane: GCC's reduction of 512 bits adds signed numbers, which may not wrap.
    HWY_ALIGN uint64_t in_lane[hn::MaxLanes(hn::ScalableTag<uint64_t>())];
    hn::Store(sum[which], d, in_lane);
    for (size_t lane = 0; lane < lanes; ++lane) sums[which] += in_lane[lane];
    for (size_t j = i; j < size; ++j) sums[which] += DigestWord(first + j, words[j], which);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {
namespace {

HWY_EXPORT(AdamWBlock);
HWY_EXPORT(SgdBlock);
HWY_EXPORT(SquaredNormBlock);
HWY_EXPORT(DigestBlock);

constexpr int64_t kBlock = 4096;

int64_t NumBlocks(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

size_t BlockSize(int64_t block, int64_t elements) {
  return static_cast<size_t>(std::min(kBlock, elements - block * kBlock));
}

int64_t NumNonFinite(const Tensor& t) {
  const float* const first = t.as<float>();
  return std::count_if(first, first + t.num_elements(), [](float x) { return !std::isfinite(x); });
}

}  // namespace

absl::Status CpuUpdateOperations::EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                               const Tensor& exp_avg, const Tensor& exp_avg_sq, const AdamW& update) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAdamW(parameter, gradient, exp_avg, exp_avg_sq, v1::DTYPE_F32));
  const AdamWSteps steps = StepsOf(update);
  const int64_t elements = parameter.num_elements();
  ParallelFor(threads_, NumBlocks(elements), [&](int64_t block) {
    const int64_t at = block * kBlock;
    HWY_DYNAMIC_DISPATCH(AdamWBlock)
    (steps, parameter.as<float>() + at, gradient.as<float>() + at, exp_avg.as<float>() + at,
     exp_avg_sq.as<float>() + at, BlockSize(block, elements));
  });
  return absl::OkStatus();
}

absl::Status CpuUpdateOperations::EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                             const Tensor& momentum, const Sgd& update) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSgd(parameter, gradient, momentum, v1::DTYPE_F32));
  const SgdSteps steps = StepsOf(update);
  const int64_t elements = parameter.num_elements();
  ParallelFor(threads_, NumBlocks(elements), [&](int64_t block) {
    const int64_t at = block * kBlock;
    HWY_DYNAMIC_DISPATCH(SgdBlock)
    (steps, parameter.as<float>() + at, gradient.as<float>() + at,
     momentum.empty() ? nullptr : momentum.as<float>() + at, BlockSize(block, elements));
  });
  return absl::OkStatus();
}

absl::Status CpuUpdateOperations::EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                                     const Tensor& num_non_finite) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckSquaredNorm(t, squared_norm, num_non_finite, v1::DTYPE_F32));
  const int64_t elements = t.num_elements();
  const int64_t blocks = NumBlocks(elements);
  double sum = 0;
  // As many blocks at a time as there are partial sums, which are added in block order.
  for (int64_t first = 0; first < blocks; first += kPartialSums) {
    const int64_t count = std::min(kPartialSums, blocks - first);
    ParallelFor(threads_, count, [&](int64_t task) {
      const int64_t block = first + task;
      partial_sums_[static_cast<size_t>(task)] =
          HWY_DYNAMIC_DISPATCH(SquaredNormBlock)(t.as<float>() + block * kBlock, BlockSize(block, elements));
    });
    for (int64_t task = 0; task < count; ++task) sum += partial_sums_[static_cast<size_t>(task)];
  }
  *squared_norm.as<double>() = sum;
  *num_non_finite.as<int64_t>() = std::isfinite(sum) ? 0 : NumNonFinite(t);
  return absl::OkStatus();
}

absl::Status CpuUpdateOperations::EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckDigest(t, digest));
  const size_t bytes = t.bytes();
  const int64_t words = static_cast<int64_t>(bytes / sizeof(uint32_t));
  std::atomic<uint64_t> totals[2] = {0, 0};  // sums modulo 2^64 do not depend on the order
  ParallelFor(threads_, NumBlocks(words), [&](int64_t block) {
    const int64_t at = block * kBlock;
    uint64_t sums[2] = {0, 0};
    HWY_DYNAMIC_DISPATCH(DigestBlock)
    (t.as<uint32_t>() + at, BlockSize(block, words), static_cast<uint64_t>(at), sums);
    for (size_t which = 0; which < 2; ++which) totals[which].fetch_add(sums[which], std::memory_order_relaxed);
  });
  uint64_t result[2] = {totals[0], totals[1]};
  if (bytes % sizeof(uint32_t) != 0) {
    uint32_t last = 0;
    std::memcpy(&last, t.as<uint32_t>() + words, bytes % sizeof(uint32_t));
    for (size_t which = 0; which < 2; ++which) result[which] += DigestWord(static_cast<uint64_t>(words), last, which);
  }
  std::memcpy(digest.data, result, sizeof(result));
  return absl::OkStatus();
}

}  // namespace stagecoach

#endif  // HWY_ONCE
