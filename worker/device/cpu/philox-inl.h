// common/philox.h, a vector of counters at a time. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_PHILOX_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_PHILOX_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "common/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// High and low words of the 64-bit products of `a`'s words and `multiplier`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void MultiplyWords(D d, V a, V multiplier, V& high, V& low) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(a, multiplier);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), multiplier);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// words[4 * i + j] = word j of the counter {first + i (low, high word), 0, 0}, for i < Lanes(d), which may not carry
// out of the low word: `first` is a multiple of Lanes(d). `words` is aligned as a vector.
template <class D>
HWY_INLINE void PhiloxWords(D d, uint64_t first, PhiloxKey key, uint32_t* HWY_RESTRICT words) {
  const auto multiplier0 = hn::Set(d, 0xD2511F53u);
  const auto multiplier1 = hn::Set(d, 0xCD9E8D57u);
  auto counter0 = hn::Iota(d, static_cast<uint32_t>(first));
  auto counter1 = hn::Set(d, static_cast<uint32_t>(first >> 32));
  auto counter2 = hn::Zero(d);
  auto counter3 = hn::Zero(d);
  for (int round = 0; round < 10; ++round) {
    hn::Vec<D> high0, low0, high1, low1;
    MultiplyWords(d, counter0, multiplier0, high0, low0);
    MultiplyWords(d, counter2, multiplier1, high1, low1);
    counter0 = hn::Xor(hn::Xor(high1, counter1), hn::Set(d, key[0]));
    counter1 = low1;
    counter2 = hn::Xor(hn::Xor(high0, counter3), hn::Set(d, key[1]));
    counter3 = low0;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(counter0, counter1, counter2, counter3, d, words);
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_PHILOX_INL_H_
