// Products of small blocks of matrices. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_BLOCK_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_BLOCK_MATMUL_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_BLOCK_MATMUL_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_BLOCK_MATMUL_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A left operand: element (row, k) is at data[row * row_stride + k * k_stride], so that a transposed one costs nothing.
struct LeftOperand {
  const float* data;
  int64_t row_stride;
  int64_t k_stride;

  LeftOperand Rows(int64_t first) const { return {data + first * row_stride, row_stride, k_stride}; }
};

// Rows of a row-major matrix.
struct RightOperand {
  const float* data;
  int64_t stride;
};
struct Result {
  float* data;
  int64_t stride;
};

// One row of a register tile. Named members, not an array, so that they live in registers at every optimisation level.
template <class V>
struct TileRow {
  V v0, v1, v2, v3;
};

template <int kVectors, class D, class V>
HWY_INLINE void LoadRow(D d, const float* from, TileRow<V>& row) {
  const size_t lanes = hn::Lanes(d);
  row.v0 = hn::LoadU(d, from);
  if constexpr (kVectors > 1) row.v1 = hn::LoadU(d, from + lanes);
  if constexpr (kVectors > 2) row.v2 = hn::LoadU(d, from + 2 * lanes);
  if constexpr (kVectors > 3) row.v3 = hn::LoadU(d, from + 3 * lanes);
}

template <int kVectors, class D, class V>
HWY_INLINE void StoreRow(D d, const TileRow<V>& row, float* to) {
  const size_t lanes = hn::Lanes(d);
  hn::StoreU(row.v0, d, to);
  if constexpr (kVectors > 1) hn::StoreU(row.v1, d, to + lanes);
  if constexpr (kVectors > 2) hn::StoreU(row.v2, d, to + 2 * lanes);
  if constexpr (kVectors > 3) hn::StoreU(row.v3, d, to + 3 * lanes);
}

template <int kVectors, class V>
HWY_INLINE void MultiplyAddRow(V factor, const TileRow<V>& b, TileRow<V>& row) {
  row.v0 = hn::MulAdd(factor, b.v0, row.v0);
  if constexpr (kVectors > 1) row.v1 = hn::MulAdd(factor, b.v1, row.v1);
  if constexpr (kVectors > 2) row.v2 = hn::MulAdd(factor, b.v2, row.v2);
  if constexpr (kVectors > 3) row.v3 = hn::MulAdd(factor, b.v3, row.v3);
}

// 4 rows x kVectors vectors of the result, held in registers while k runs.
template <bool kAccumulate, int kVectors, class D>
HWY_INLINE void MultiplyTile(D d, int64_t depth, const LeftOperand& a, const RightOperand& b, const Result& c) {
  using V = hn::Vec<D>;
  const V zero = hn::Zero(d);
  TileRow<V> row0{zero, zero, zero, zero}, row1 = row0, row2 = row0, row3 = row0;
  if constexpr (kAccumulate) {
    LoadRow<kVectors>(d, c.data, row0);
    LoadRow<kVectors>(d, c.data + c.stride, row1);
    LoadRow<kVectors>(d, c.data + 2 * c.stride, row2);
    LoadRow<kVectors>(d, c.data + 3 * c.stride, row3);
  }
  const float* left = a.data;
  const float* right = b.data;
  TileRow<V> b_row{zero, zero, zero, zero};
  for (int64_t k = 0; k < depth; ++k, left += a.k_stride, right += b.stride) {
    LoadRow<kVectors>(d, right, b_row);
    MultiplyAddRow<kVectors>(hn::Set(d, left[0]), b_row, row0);
    MultiplyAddRow<kVectors>(hn::Set(d, left[a.row_stride]), b_row, row1);
    MultiplyAddRow<kVectors>(hn::Set(d, left[2 * a.row_stride]), b_row, row2);
    MultiplyAddRow<kVectors>(hn::Set(d, left[3 * a.row_stride]), b_row, row3);
  }
  StoreRow<kVectors>(d, row0, c.data);
  StoreRow<kVectors>(d, row1, c.data + c.stride);
  StoreRow<kVectors>(d, row2, c.data + 2 * c.stride);
  StoreRow<kVectors>(d, row3, c.data + 3 * c.stride);
}

template <bool kAccumulate, int kVectors, class D>
HWY_INLINE void MultiplyColumns(D d, int64_t rows, int64_t depth, const LeftOperand& a, const RightOperand& b,
                                const Result& c) {
  for (int64_t row = 0; row < rows; row += 4) {
    MultiplyTile<kAccumulate, kVectors>(d, depth, a.Rows(row), b, Result{c.data + row * c.stride, c.stride});
  }
}

struct BlockSize {
  int64_t rows;     // a multiple of 4
  int64_t columns;  // a multiple of 16
  int64_t depth;
};

// c = a b, or c += a b, for blocks that fit the first two caches. Every element is summed in the order of k, one fused
// multiply-add each where the instruction set has them.
template <bool kAccumulate>
HWY_NOINLINE void BlockMatmul(const BlockSize& size, const LeftOperand& a, const RightOperand& b, const Result& c) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  const auto right = [&]() { return RightOperand{b.data + column, b.stride}; };
  const auto result = [&]() { return Result{c.data + column, c.stride}; };
  // 16 of 32 registers of 64 bytes hold the result, or 8 of 16 smaller ones.
  if (lanes == 16) {
    for (; column + 4 * lanes <= size.columns; column += 4 * lanes) {
      MultiplyColumns<kAccumulate, 4>(d, size.rows, size.depth, a, right(), result());
    }
  }
  for (; column + 2 * lanes <= size.columns; column += 2 * lanes) {
    MultiplyColumns<kAccumulate, 2>(d, size.rows, size.depth, a, right(), result());
  }
  for (; column < size.columns; column += lanes) {
    MultiplyColumns<kAccumulate, 1>(d, size.rows, size.depth, a, right(), result());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_BLOCK_MATMUL_INL_H_
