// Attention of one head, backward. Compiled once per instruction set, see Highway's foreach_target.h.

#if defined(STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_BACKWARD_INL_H_
#undef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_BACKWARD_INL_H_
#else
#define STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>

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

// With p the probabilities, f the dropout factors (0 or 1 / (1 - probability)) and o = sum over keys of f p v:
//   d_v = sum over queries of f p d_o;   d_score = p (f (d_o . v) - d_o . o);
//   d_q = scale * sum over keys of d_score k;   d_k = sum over queries of d_score (scale q).
// p is computed again from q, k and log_sum_exp. Blocks of keys are the outer loop, so d_k and d_v are complete when
// it leaves them; d_q gathers in the workspace, in the order of key blocks.
class AttentionBackwardPass {
 public:
  AttentionBackwardPass(const AttentionHead& head, float* workspace)
      : head_(head), layout_(head), workspace_(workspace) {}

  void Run() const {
    Pack();
    const int64_t block_floats = kAttentionBlock * head_.padded_head_size();
    for (int64_t key = 0; key < head_.seq; key += kAttentionBlock) {
      FillZero(block_floats, At(layout_.d_key_block));
      FillZero(block_floats, At(layout_.d_value_block));
      for (int64_t query = key; query < head_.seq; query += kAttentionBlock) {
        AddBlock(MakeScoreBlock(head_, query, key));
      }
      const int64_t rows = std::min(kAttentionBlock, head_.seq - key);
      WriteRows(At(layout_.d_key_block), rows, 1, head_.d_k + key * head_.qkv_stride);
      WriteRows(At(layout_.d_value_block), rows, 1, head_.d_v + key * head_.qkv_stride);
    }
    WriteRows(At(layout_.d_query_rows), head_.seq, head_.scale, head_.d_q);
  }

 private:
  float* At(int64_t offset) const { return workspace_ + offset; }
  // Of a "rows" operand.
  float* RowAt(int64_t offset, int64_t row) const { return At(offset) + row * head_.padded_head_size(); }

  // Rows that pad the sequence become zeros everywhere: they add p * 0 to d_v and 1 * (0 - 0) to d_score.
  void Pack() const {
    const int64_t seq = head_.seq, padded_seq = head_.padded_seq(), size = head_.head_size, stride = head_.qkv_stride;
    PackTransposed(head_, head_.k, At(layout_.keys_transposed));
    PackTransposed(head_, head_.v, At(layout_.values_transposed));
    PackRows(head_.k, stride, seq, padded_seq, size, 1, At(layout_.key_rows));
    PackRows(head_.q, stride, seq, padded_seq, size, head_.scale, At(layout_.query_rows));
    PackRows(head_.d_output, head_.output_stride, seq, padded_seq, size, 1, At(layout_.d_output_rows));
    FillZero(padded_seq * head_.padded_head_size(), At(layout_.d_query_rows));
    FillZero(padded_seq, At(layout_.log_sum_exp));
    FillZero(padded_seq, At(layout_.mean));
    std::copy_n(head_.log_sum_exp, seq, At(layout_.log_sum_exp));
    for (int64_t row = 0; row < seq; ++row) {
      At(layout_.mean)[row] = Dot(RowAt(layout_.d_output_rows, row), head_.output + row * head_.output_stride);
    }
  }

  float Dot(const float* a, const float* b) const {
    FloatVector sum = hn::Zero(FloatTag());
    ForEachVector(static_cast<size_t>(head_.head_size), [&](size_t i, auto memory) HWY_ATTR {
      sum = hn::MulAdd(memory.Load(a + i), memory.Load(b + i), sum);
    });
    return hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
  }

  void AddBlock(const ScoreBlock& block) const {
    float* probabilities = At(layout_.probabilities);
    float* d_scores = At(layout_.d_scores);
    const float* queries = RowAt(layout_.query_rows, block.first_query);
    const float* d_outputs = RowAt(layout_.d_output_rows, block.first_query);
    MultiplyScores(head_, block, queries, At(layout_.keys_transposed), probabilities);
    MultiplyScores(head_, block, d_outputs, At(layout_.values_transposed), d_scores);
    MaskFutureKeys(block, probabilities);
    for (int64_t row = 0; row < block.rows; ++row) DifferentiateRow(block, row);
    MultiplyByQueries(head_, block, probabilities, d_outputs, At(layout_.d_value_block));
    MultiplyByQueries(head_, block, d_scores, queries, At(layout_.d_key_block));
    MultiplyByKeys(head_, block, d_scores, RowAt(layout_.key_rows, block.first_key),
                   RowAt(layout_.d_query_rows, block.first_query));
  }

  // From scores and d_o . v to f p and d_score, in place.
  void DifferentiateRow(const ScoreBlock& block, int64_t row) const {
    const FloatTag d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t columns = block.ColumnsOfRow(row);
    const bool dropout = head_.dropout.active;
    float* probabilities = At(layout_.probabilities) + row * kAttentionBlock;
    float* d_scores = At(layout_.d_scores) + row * kAttentionBlock;
    const auto log_sum_exp = hn::Set(d, At(layout_.log_sum_exp)[block.first_query + row]);
    const auto mean = hn::Set(d, At(layout_.mean)[block.first_query + row]);
    const uint32_t* words = nullptr;
    if (dropout) {
      words = DropoutWordsOfRow(head_, block.first_query + row, block.first_key, columns,
                                reinterpret_cast<uint32_t*>(At(layout_.dropout_words)));
    }
    for (int64_t column = 0; column < columns; column += lanes) {
      const auto p = ExpBelow88(d, hn::Sub(hn::LoadU(d, probabilities + column), log_sum_exp));
      auto factored_p = p;
      auto d_p = hn::LoadU(d, d_scores + column);
      if (dropout) {
        factored_p = DropOrScale(head_.dropout.constants, words + column, p);
        d_p = DropOrScale(head_.dropout.constants, words + column, d_p);
      }
      hn::StoreU(factored_p, d, probabilities + column);
      hn::StoreU(hn::Mul(p, hn::Sub(d_p, mean)), d, d_scores + column);
    }
  }

  // Rows of a gradient of q, k or v from a packed operand.
  void WriteRows(const float* from, int64_t rows, float factor, float* to) const {
    for (int64_t row = 0; row < rows; ++row, from += head_.padded_head_size(), to += head_.qkv_stride) {
      ScaleRow(from, head_.head_size, factor, to);
    }
  }

  const AttentionHead& head_;
  const AttentionBackwardLayout layout_;
  float* const workspace_;
};

}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#endif  // STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_BACKWARD_INL_H_
