#include "worker/device/tensor.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace stagecoach {

Tensor Tensor::Of(void* data, v1::DType dtype, std::initializer_list<int64_t> dims) {
  STAGECOACH_CHECK(dims.size() <= kMaxRank);
  Tensor tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  for (const int64_t dim : dims) tensor.dims[static_cast<size_t>(tensor.rank++)] = dim;
  return tensor;
}

int64_t Tensor::num_elements() const {
  int64_t product = 1;
  for (int i = 0; i < rank; ++i) product *= dims[static_cast<size_t>(i)];
  return product;
}

size_t Tensor::bytes() const { return static_cast<size_t>(num_elements()) * BytesOf(dtype); }

int64_t Tensor::rows() const {
  int64_t product = 1;
  for (int i = 0; i + 1 < rank; ++i) product *= dims[static_cast<size_t>(i)];
  return product;
}

Tensor Tensor::AsMatrix() const { return Of(data, dtype, {rows(), columns()}); }

Tensor Tensor::Slice(int64_t first, int64_t count) const {
  STAGECOACH_CHECK(rank > 0 && first >= 0 && count >= 0 && first + count <= dims[0]);
  const int64_t row = dims[0] == 0 ? 0 : num_elements() / dims[0];
  Tensor slice = *this;
  slice.data = static_cast<char*>(data) + static_cast<size_t>(first * row) * BytesOf(dtype);
  slice.dims[0] = count;
  return slice;
}

std::string Tensor::ShapeString() const {
  std::string text = absl::StrCat(DTypeName(dtype), "[");
  for (int i = 0; i < rank; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", dims[static_cast<size_t>(i)]);
  return absl::StrCat(text, "]");
}

size_t BytesOf(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F64:
    case v1::DTYPE_I64:
    case v1::DTYPE_U64:
      return 8;
    case v1::DTYPE_F32:
    case v1::DTYPE_I32:
      return 4;
    case v1::DTYPE_BF16:
    case v1::DTYPE_F16:
      return 2;
    case v1::DTYPE_U8:
      return 1;
    default:
      return 0;
  }
}

const char* DTypeName(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F64:
      return "f64";
    case v1::DTYPE_F32:
      return "f32";
    case v1::DTYPE_BF16:
      return "bf16";
    case v1::DTYPE_F16:
      return "f16";
    case v1::DTYPE_I64:
      return "i64";
    case v1::DTYPE_U64:
      return "u64";
    case v1::DTYPE_I32:
      return "i32";
    case v1::DTYPE_U8:
      return "u8";
    default:
      return "unspecified";
  }
}

}  // namespace stagecoach
