// Loops over memory for the kernels of this folder. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_VECTOR_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_VECTOR_LOOP_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_VECTOR_LOOP_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_VECTOR_LOOP_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

// How a step of ForEachVector touches memory: whole vectors, or the first `count` lanes of the last one, where the
// other lanes read 0 and are not written. An element gets the same bits from both.
struct WholeVector {
  HWY_INLINE FloatVector Load(const float* from) const { return hn::LoadU(FloatTag(), from); }
  HWY_INLINE void Store(FloatVector v, float* to) const { hn::StoreU(v, FloatTag(), to); }
  HWY_INLINE FloatVector ZeroOutside(FloatVector v) const { return v; }
  HWY_INLINE FloatVector FillOutside(FloatVector v, FloatVector /*filler*/) const { return v; }
};
struct PartOfVector {
  size_t count;

  HWY_INLINE FloatVector Load(const float* from) const {
    HWY_ALIGN float lanes[hn::MaxLanes(FloatTag())] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return hn::Load(FloatTag(), lanes);
  }
  HWY_INLINE void Store(FloatVector v, float* to) const {
    HWY_ALIGN float lanes[hn::MaxLanes(FloatTag())];
    hn::Store(v, FloatTag(), lanes);
    std::memcpy(to, lanes, count * sizeof(float));
  }
  HWY_INLINE FloatVector ZeroOutside(FloatVector v) const {
    return hn::IfThenElseZero(hn::FirstN(FloatTag(), count), v);
  }
  HWY_INLINE FloatVector FillOutside(FloatVector v, FloatVector filler) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), count), v, filler);
  }
};

// step(i, memory) for i = 0, lanes, 2 lanes, ... below `size`, with `memory` one of the two above. A step is a lambda
// with HWY_ATTR before its body.
template <typename Step>
HWY_INLINE void ForEachVector(size_t size, const Step& step) {
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) step(i, WholeVector());
  if (i < size) step(i, PartOfVector{size - i});
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_VECTOR_LOOP_INL_H_
