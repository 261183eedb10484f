// e^x for the kernels of this folder. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_EXP_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_EXP_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x in f32 for -87 <= x <= 88, within 2^-22 of it; NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpInRange(D d, V x) {
  const hn::RebindToSigned<D> integer;
  // x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to the integer n and leaves it in the low bits; 127
  // more makes them the exponent field of 2^n: cheaper than conversions, which guard against overflow.
  const auto shift = hn::Set(d, 12582912.0f + 127.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const auto n = hn::Sub(shifted, shift);
  // ln 2 in two parts, the first short enough for n times it to be exact.
  const auto r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x));
  // e^r = 1 + r + r^2 q(r), q interpolated at Chebyshev nodes: relative error 1.1e-8.
  auto q = hn::Set(d, 1.39261836e-3f);
  q = hn::MulAdd(q, r, hn::Set(d, 8.36317905e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.16665546e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.16666577f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  const auto exp_r = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integer, shifted)));
  return hn::Mul(exp_r, power);
}

// The same for x <= 88: 0 below -87.3, where the result would be subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpBelow88(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), ExpInRange(d, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_EXP_INL_H_
