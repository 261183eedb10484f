#ifndef STAGECOACH_WORKER_DEVICE_TENSOR_H_
#define STAGECOACH_WORKER_DEVICE_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "stagecoach/v1/plan.pb.h"

namespace stagecoach {

// A view of device memory: dense, row-major, not owning. Copyable; the memory that it points into outlives it. `data`
// may not be dereferenced by the host unless the device's capabilities say host_addressable. Rank 0 with null data
// means "no tensor".
struct Tensor {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};

  static Tensor Of(void* data, v1::DType dtype, std::initializer_list<int64_t> dims);

  bool empty() const { return data == nullptr; }  // no tensor
  int64_t num_elements() const;                   // 1 for rank 0
  size_t bytes() const;
  int64_t rows() const;  // product of all dimensions but the last
  int64_t columns() const { return rank == 0 ? 1 : dims[static_cast<size_t>(rank - 1)]; }
  // The same memory as [rows, columns].
  Tensor AsMatrix() const;
  // Rows [first, first + count) of the first dimension.
  Tensor Slice(int64_t first, int64_t count) const;
  std::string ShapeString() const;  // "f32[4, 512, 768]", for messages

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

size_t BytesOf(v1::DType dtype);         // of one element
const char* DTypeName(v1::DType dtype);  // "f32"

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_TENSOR_H_
