// Attention of one head, forward. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_FORWARD_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_FORWARD_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "worker/device/cpu/attention_dropout-inl.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/attention_kernels-inl.h"
#include "worker/device/cpu/exp-inl.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of queries against the blocks of keys up to the diagonal, with a running maximum and a running sum per query:
// when a later block has a larger score, what was summed before is scaled down.
class AttentionForwardPass {
 public:
  AttentionForwardPass(const AttentionHead& head, float* workspace)
      : head_(head), layout_(head), workspace_(workspace) {}

  void Run() const {
    PackTransposed(head_, head_.k, At(layout_.keys_transposed));
    PackRows(head_.v, head_.qkv_stride, head_.seq, head_.padded_seq(), head_.head_size, 1, At(layout_.value_rows));
    for (int64_t query = 0; query < head_.seq; query += kAttentionBlock) {
      StartQueries(query);
      for (int64_t key = 0; key <= query; key += kAttentionBlock) AddKeys(MakeScoreBlock(head_, query, key));
      FinishQueries(query);
    }
  }

 private:
  float* At(int64_t offset) const { return workspace_ + offset; }

  void StartQueries(int64_t query) const {
    const ScoreBlock block = MakeScoreBlock(head_, query, query);
    PackRows(head_.q + query * head_.qkv_stride, head_.qkv_stride, std::min(block.rows, head_.seq - query), block.rows,
             head_.head_size, head_.scale, At(layout_.query_block));
    FillZero(kAttentionBlock * head_.padded_head_size(), At(layout_.output_block));
    FillZero(kAttentionBlock * kAttentionPad, At(layout_.row_sum));
    std::fill_n(At(layout_.row_max), kAttentionBlock, -std::numeric_limits<float>::infinity());
  }

  void AddKeys(const ScoreBlock& block) const {
    float* scores = At(layout_.score_block);
    MultiplyScores(head_, block, At(layout_.query_block), At(layout_.keys_transposed), scores);
    MaskFutureKeys(block, scores);
    UpdateMaximum(block);
    for (int64_t row = 0; row < block.rows; ++row) {
      if (block.first_key > 0) ScaleDown(row);
      ExponentiateRow(block, row);
    }
    MultiplyByKeys(head_, block, scores, At(layout_.value_rows) + block.first_key * head_.padded_head_size(),
                   At(layout_.output_block));
  }

  void UpdateMaximum(const ScoreBlock& block) const {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    float* row_max = At(layout_.row_max);
    float* new_max = At(layout_.new_max);
    for (int64_t row = 0; row < block.rows; ++row) {
      const float* scores = At(layout_.score_block) + row * kAttentionBlock;
      auto largest = hn::Set(d, row_max[row]);
      const int64_t columns = block.ColumnsOfRow(row);
      for (int64_t column = 0; column < columns; column += lanes) {
        largest = hn::Max(largest, hn::LoadU(d, scores + column));
      }
      new_max[row] = hn::GetLane(hn::MaxOfLanes(d, largest));
    }
    for (int64_t row = 0; row < block.rows; row += lanes) {
      const auto larger = hn::LoadU(d, new_max + row);
      hn::StoreU(ExpBelow88(d, hn::Sub(hn::LoadU(d, row_max + row), larger)), d, At(layout_.correction) + row);
      hn::StoreU(larger, d, row_max + row);
    }
  }

  void ScaleDown(int64_t row) const {
    const float correction = At(layout_.correction)[row];
    if (correction == 1) return;
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, correction);
    const int64_t size = head_.padded_head_size();
    float* output = At(layout_.output_block) + row * size;
    for (int64_t i = 0; i < size; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, output + i), factor), d, output + i);
    float* sum = At(layout_.row_sum) + row * kAttentionPad;
    hn::StoreU(hn::Mul(hn::LoadU(d, sum), factor), d, sum);
  }

  // The scores of a row become probabilities, not yet divided by their sum; dropped ones count in the sum.
  void ExponentiateRow(const ScoreBlock& block, int64_t row) const {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t columns = block.ColumnsOfRow(row);
    float* scores = At(layout_.score_block) + row * kAttentionBlock;
    float* sum_at = At(layout_.row_sum) + row * kAttentionPad;
    const auto largest = hn::Set(d, At(layout_.row_max)[row]);
    auto sum = hn::LoadU(d, sum_at);
    for (int64_t column = 0; column < columns; column += lanes) {
      const auto weight = ExpBelow88(d, hn::Sub(hn::LoadU(d, scores + column), largest));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, scores + column);
    }
    hn::StoreU(sum, d, sum_at);
    if (!head_.dropout.active) return;
    const uint32_t* words = DropoutWordsOfRow(head_, block.first_query + row, block.first_key, columns,
                                              reinterpret_cast<uint32_t*>(At(layout_.dropout_words)));
    for (int64_t column = 0; column < columns; column += lanes) {
      const auto weight = hn::LoadU(d, scores + column);
      hn::StoreU(DropOrScale(head_.dropout.constants, words + column, weight), d, scores + column);
    }
  }

  void FinishQueries(int64_t query) const {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t rows = std::min(kAttentionBlock, head_.seq - query), size = head_.padded_head_size();
    float* total = At(layout_.new_max);
    std::fill_n(total, kAttentionBlock, 1.0f);
    for (int64_t row = 0; row < rows; ++row) {
      const float* sum = At(layout_.row_sum) + row * kAttentionPad;
      total[row] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sum)));
      ScaleRow(At(layout_.output_block) + row * size, head_.head_size, 1 / total[row],
               head_.output + (query + row) * head_.output_stride);
    }
    float* log_sum_exp = At(layout_.correction);
    for (int64_t row = 0; row < rows; row += lanes) {
      const auto largest = hn::LoadU(d, At(layout_.row_max) + row);
      hn::StoreU(hn::Add(largest, hn::Log(d, hn::LoadU(d, total + row))), d, log_sum_exp + row);
    }
    std::copy_n(log_sum_exp, rows, head_.log_sum_exp + query);
  }

  const AttentionHead& head_;
  const AttentionForwardLayout layout_;
  float* const workspace_;
};

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_FORWARD_INL_H_
