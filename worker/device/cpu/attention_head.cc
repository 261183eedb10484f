#include "worker/device/cpu/attention_head.h"

#include <cmath>

namespace stagecoach {
namespace {

// Hands out consecutive, 64-byte aligned ranges of floats.
class Offsets {
 public:
  int64_t Take(int64_t floats) {
    const int64_t offset = next_;
    next_ += PadAttention(floats);
    return offset;
  }
  int64_t total() const { return next_; }

 private:
  int64_t next_ = 0;
};

AttentionDropout MakeDropout(const Attention& attention, int64_t sample, int64_t head) {
  AttentionDropout result;
  if (attention.dropout.probability == 0) return result;
  const auto seq = static_cast<uint64_t>(attention.shape.seq);
  result.active = true;
  result.constants = ConstantsOf(attention.dropout, sample);
  result.first_element = static_cast<uint64_t>(head) * seq * seq;
  return result;
}

}  // namespace

AttentionForwardLayout::AttentionForwardLayout(const AttentionHead& head) {
  const int64_t padded_size = head.padded_head_size();
  Offsets offsets;
  keys_transposed = offsets.Take(head.num_blocks() * head.head_size * kAttentionBlock);
  value_rows = offsets.Take(head.padded_seq() * padded_size);
  query_block = offsets.Take(kAttentionBlock * padded_size);
  score_block = offsets.Take(kAttentionBlock * kAttentionBlock);
  output_block = offsets.Take(kAttentionBlock * padded_size);
  row_max = offsets.Take(kAttentionBlock);
  new_max = offsets.Take(kAttentionBlock);
  correction = offsets.Take(kAttentionBlock);
  row_sum = offsets.Take(kAttentionBlock * kAttentionPad);
  dropout_words = offsets.Take(kAttentionDropoutWords);
  total = offsets.total();
}

AttentionBackwardLayout::AttentionBackwardLayout(const AttentionHead& head) {
  const int64_t rows = head.padded_seq() * head.padded_head_size();
  const int64_t transposed = head.num_blocks() * head.head_size * kAttentionBlock;
  Offsets offsets;
  keys_transposed = offsets.Take(transposed);
  values_transposed = offsets.Take(transposed);
  key_rows = offsets.Take(rows);
  query_rows = offsets.Take(rows);
  d_output_rows = offsets.Take(rows);
  d_query_rows = offsets.Take(rows);
  log_sum_exp = offsets.Take(head.padded_seq());
  mean = offsets.Take(head.padded_seq());
  probabilities = offsets.Take(kAttentionBlock * kAttentionBlock);
  d_scores = offsets.Take(kAttentionBlock * kAttentionBlock);
  d_key_block = offsets.Take(kAttentionBlock * head.padded_head_size());
  d_value_block = offsets.Take(kAttentionBlock * head.padded_head_size());
  dropout_words = offsets.Take(kAttentionDropoutWords);
  total = offsets.total();
}

AttentionHead MakeAttentionHead(const Attention& attention, int64_t sample, int64_t head) {
  const AttentionShape& shape = attention.shape;
  const int64_t hidden = shape.heads * shape.head_size;
  AttentionHead result;
  result.seq = shape.seq;
  result.head_size = shape.head_size;
  result.qkv_stride = 3 * hidden;
  result.output_stride = hidden;
  result.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)));
  result.q = attention.qkv.as<float>() + sample * shape.seq * 3 * hidden + head * shape.head_size;
  result.k = result.q + hidden;
  result.v = result.q + 2 * hidden;
  result.output = attention.output.as<float>() + sample * shape.seq * hidden + head * shape.head_size;
  result.log_sum_exp = attention.log_sum_exp.as<float>() + (sample * shape.heads + head) * shape.seq;
  result.dropout = MakeDropout(attention, sample, head);
  return result;
}

AttentionHead MakeAttentionHead(const AttentionGradient& gradient, int64_t sample, int64_t head) {
  const AttentionShape& shape = gradient.forward.shape;
  const int64_t hidden = shape.heads * shape.head_size;
  AttentionHead result = MakeAttentionHead(gradient.forward, sample, head);
  result.d_output = gradient.d_output.as<float>() + sample * shape.seq * hidden + head * shape.head_size;
  result.d_q = gradient.d_qkv.as<float>() + sample * shape.seq * 3 * hidden + head * shape.head_size;
  result.d_k = result.d_q + hidden;
  result.d_v = result.d_q + 2 * hidden;
  return result;
}

}  // namespace stagecoach
