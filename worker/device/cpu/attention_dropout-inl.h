// Dropout of attention probabilities. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_DROPOUT_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_DROPOUT_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_DROPOUT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/philox-inl.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What decides about `count` <= kAttentionBlock elements of the score matrix from (query, key) on: word i of the result
// is that of element i. `buffer` is 64-byte aligned and holds kAttentionDropoutWords.
HWY_INLINE const uint32_t* DropoutWordsOfRow(const AttentionHead& head, int64_t query, int64_t key, int64_t count,
                                             uint32_t* buffer) {
  const hn::RebindToUnsigned<FloatTag> d;
  const uint64_t words_per_call = 4 * hn::Lanes(d);
  const uint64_t element = head.dropout.first_element + static_cast<uint64_t>(query * head.seq + key);
  const uint64_t first = element / words_per_call * words_per_call;
  const uint64_t end = element + static_cast<uint64_t>(count);
  uint32_t* words = buffer;
  for (uint64_t at = first; at < end; at += words_per_call, words += words_per_call) {
    PhiloxWords(d, at / 4, head.dropout.constants.key, words);
  }
  return buffer + (element - first);
}

// x scaled where the word says keep, else 0.
HWY_INLINE FloatVector DropOrScale(const DropoutConstants& dropout, const uint32_t* words, FloatVector x) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto drop = hn::Lt(hn::LoadU(du, words), hn::Set(du, dropout.threshold));
  return hn::IfThenZeroElse(hn::RebindMask(d, drop), hn::Mul(x, hn::Set(d, dropout.scale)));
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_DROPOUT_INL_H_
