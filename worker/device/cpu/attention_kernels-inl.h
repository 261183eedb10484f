// What the forward and the backward pass of attention share: packing, and the causal walk over a block. Compiled once
// per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_KERNELS_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_KERNELS_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/block_matmul-inl.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where a block lies in the score matrix. `rows` and `columns` are padded; blocks right of the diagonal do not exist.
struct ScoreBlock {
  int64_t first_query, rows;
  int64_t first_key, columns;

  bool diagonal() const { return first_query == first_key; }
  // Columns that row `row` may see, rounded up to whole vectors: the others are neither computed nor read.
  int64_t ColumnsOfRow(int64_t row) const {
    return diagonal() ? row / kAttentionPad * kAttentionPad + kAttentionPad : columns;
  }
};

inline ScoreBlock MakeScoreBlock(const AttentionHead& head, int64_t first_query, int64_t first_key) {
  return {first_query, std::min(kAttentionBlock, head.padded_seq() - first_query), first_key,
          std::min(kAttentionBlock, head.padded_seq() - first_key)};
}

HWY_INLINE void FillZero(int64_t count, float* to) { std::fill(to, to + count, 0.0f); }

HWY_INLINE void ScaleRow(const float* from, int64_t size, float factor, float* to) {
  ForEachVector(static_cast<size_t>(size), [=](size_t i, auto memory) HWY_ATTR {
    memory.Store(hn::Mul(memory.Load(from + i), hn::Set(FloatTag(), factor)), to + i);
  });
}

// to [rows, PadAttention(size)] = factor * from [rows, size]; rows up to `padded_rows` and columns beyond size are
// zero.
HWY_INLINE void PackRows(const float* from, int64_t stride, int64_t rows, int64_t padded_rows, int64_t size,
                         float factor, float* to) {
  const int64_t padded = PadAttention(size);
  for (int64_t row = 0; row < rows; ++row, from += stride, to += padded) {
    ScaleRow(from, size, factor, to);
    FillZero(padded - size, to + size);
  }
  FillZero((padded_rows - rows) * padded, to);
}

// Of four rows at a time: to[i * kAttentionBlock + row] = from[row * stride + i].
HWY_INLINE void TransposeFourRows(const float* from, int64_t stride, int64_t size, float* to) {
  const hn::FixedTag<float, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> dw;
  int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    const auto r0 = hn::LoadU(d4, from + i), r1 = hn::LoadU(d4, from + stride + i);
    const auto r2 = hn::LoadU(d4, from + 2 * stride + i), r3 = hn::LoadU(d4, from + 3 * stride + i);
    const auto low01 = hn::BitCast(dw, hn::InterleaveLower(d4, r0, r1));
    const auto high01 = hn::BitCast(dw, hn::InterleaveUpper(d4, r0, r1));
    const auto low23 = hn::BitCast(dw, hn::InterleaveLower(d4, r2, r3));
    const auto high23 = hn::BitCast(dw, hn::InterleaveUpper(d4, r2, r3));
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(dw, low01, low23)), d4, to + i * kAttentionBlock);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(dw, low01, low23)), d4, to + (i + 1) * kAttentionBlock);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(dw, high01, high23)), d4, to + (i + 2) * kAttentionBlock);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(dw, high01, high23)), d4, to + (i + 3) * kAttentionBlock);
  }
  for (; i < size; ++i) {
    for (int64_t row = 0; row < 4; ++row) to[i * kAttentionBlock + row] = from[row * stride + i];
  }
}

// Per block of rows, to [size, kAttentionBlock] = the block's transpose; rows beyond the sequence become zeros.
HWY_INLINE void PackTransposed(const AttentionHead& head, const float* from, float* to) {
  const int64_t stride = head.qkv_stride, size = head.head_size;
  for (int64_t first = 0; first < head.seq; first += kAttentionBlock, to += size * kAttentionBlock) {
    const int64_t rows = std::min(kAttentionBlock, head.seq - first);
    if (rows < kAttentionBlock) FillZero(size * kAttentionBlock, to);
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) TransposeFourRows(from + (first + row) * stride, stride, size, to + row);
    for (; row < rows; ++row) {
      for (int64_t i = 0; i < size; ++i) to[i * kAttentionBlock + row] = from[(first + row) * stride + i];
    }
  }
}

// Calls step(first_row, rows, columns) for the parts of a block in which all rows see the same columns.
template <class Step>
HWY_INLINE void ForEachRowGroup(const ScoreBlock& block, const Step& step) {
  if (!block.diagonal()) return step(int64_t{0}, block.rows, block.columns);
  for (int64_t row = 0; row < block.rows; row += kAttentionPad) step(row, kAttentionPad, row + kAttentionPad);
}

// scores = left [rows, head_size] times a packed transposed operand; `left` starts at the block's first query.
HWY_INLINE void MultiplyScores(const AttentionHead& head, const ScoreBlock& block, const float* left,
                               const float* transposed, float* scores) {
  const int64_t padded = head.padded_head_size();
  const float* right = transposed + block.first_key * head.head_size;
  ForEachRowGroup(block, [&](int64_t row, int64_t rows, int64_t columns) HWY_ATTR {
    BlockMatmul<false>({rows, columns, head.head_size}, LeftOperand{left, padded, 1}.Rows(row),
                       {right, kAttentionBlock}, {scores + row * kAttentionBlock, kAttentionBlock});
  });
}

// result [rows, padded head size] += scores times rows of a packed operand; `right` starts at the block's first key.
HWY_INLINE void MultiplyByKeys(const AttentionHead& head, const ScoreBlock& block, const float* scores,
                               const float* right, float* result) {
  const int64_t padded = head.padded_head_size();
  ForEachRowGroup(block, [&](int64_t row, int64_t rows, int64_t columns) HWY_ATTR {
    BlockMatmul<true>({rows, padded, columns}, LeftOperand{scores, kAttentionBlock, 1}.Rows(row), {right, padded},
                      {result + row * padded, padded});
  });
}

// result [columns, padded head size] += scores transposed times rows of a packed operand; `right` starts at the block's
// first query.
HWY_INLINE void MultiplyByQueries(const AttentionHead& head, const ScoreBlock& block, const float* scores,
                                  const float* right, float* result) {
  const int64_t padded = head.padded_head_size();
  const LeftOperand left{scores, 1, kAttentionBlock};
  if (!block.diagonal()) {
    return BlockMatmul<true>({block.columns, padded, block.rows}, left, {right, padded}, {result, padded});
  }
  // Keys [key, key + kAttentionPad) are seen by the queries from `key` on.
  for (int64_t key = 0; key < block.columns; key += kAttentionPad) {
    const float* scores_below = scores + key * kAttentionBlock + key;
    BlockMatmul<true>({kAttentionPad, padded, block.rows - key}, {scores_below, 1, kAttentionBlock},
                      {right + key * padded, padded}, {result + key * padded, padded});
  }
}

// In a block on the diagonal, scores of keys after the query become -infinity.
HWY_INLINE void MaskFutureKeys(const ScoreBlock& block, float* scores) {
  if (!block.diagonal()) return;
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t end = block.ColumnsOfRow(row);
    for (int64_t column = (row + 1) / lanes * lanes; column < end; column += lanes) {
      float* at = scores + row * kAttentionBlock + column;
      const auto seen = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(row + 1 - column, 0)));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), minus_infinity), d, at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_KERNELS_INL_H_
