#ifndef STAGECOACH_WORKER_MODEL_REGION_CARVER_H_
#define STAGECOACH_WORKER_MODEL_REGION_CARVER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "common/check.h"
#include "common/memory_layout.h"
#include "worker/device/tensor.h"

namespace stagecoach {

// Cuts tensors off the front of a region, in the order in which common/layer_memory.cc draws it. A region that is too
// small is a broken invariant: the stage has compared sizes before. One call's; not shared.
class RegionCarver {
 public:
  explicit RegionCarver(std::span<std::byte> region) : rest_(region) {}

  Tensor Take(v1::DType dtype, std::initializer_list<int64_t> dims) {
    const Tensor tensor = Tensor::Of(rest_.data(), dtype, dims);
    const uint64_t bytes = AlignUp(tensor.bytes());
    STAGECOACH_CHECK(bytes <= rest_.size());
    rest_ = rest_.subspan(bytes);
    return tensor;
  }

 private:
  std::span<std::byte> rest_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_MODEL_REGION_CARVER_H_
