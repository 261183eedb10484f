#ifndef STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_
#define STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_

#include <cstdint>

#include "worker/device/cpu/dropout_constants.h"
#include "worker/device/tensor_operations.h"

namespace stagecoach {

inline constexpr int64_t kAttentionBlock = 64;  // queries, or keys, of a block of the score matrix
inline constexpr int64_t kAttentionPad = 16;    // packed rows and columns come in multiples of it, filled with zeros
// Of a row of a block, which may start anywhere inside the words of one vector of counters: up to two vectors' worth.
inline constexpr int64_t kAttentionDropoutWords = 2 * 4 * kAttentionPad;

constexpr int64_t PadAttention(int64_t n) { return (n + kAttentionPad - 1) / kAttentionPad * kAttentionPad; }

struct AttentionDropout {
  bool active = false;
  DropoutConstants constants{};
  uint64_t first_element = 0;  // of (query 0, key 0) of the head
};

// One head of one sample: a task. Rows of q, k, v and their gradients are `qkv_stride` floats apart, those of output
// and d_output `output_stride`.
struct AttentionHead {
  int64_t seq = 0;
  int64_t head_size = 0;
  int64_t qkv_stride = 0;
  int64_t output_stride = 0;
  float scale = 1;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* output = nullptr;       // [seq, head_size]; the backward pass reads it
  float* log_sum_exp = nullptr;  // [seq]; the backward pass reads it
  const float* d_output = nullptr;
  float* d_q = nullptr;
  float* d_k = nullptr;
  float* d_v = nullptr;
  AttentionDropout dropout;

  int64_t padded_seq() const { return PadAttention(seq); }
  int64_t padded_head_size() const { return PadAttention(head_size); }
  int64_t num_blocks() const { return (seq + kAttentionBlock - 1) / kAttentionBlock; }
};

// Packed operands of a head, and blocks in work, as offsets in floats into a thread's workspace. "Transposed" is, per
// block of keys, [head_size, kAttentionBlock]; "rows" is [padded_seq, padded_head_size].
struct AttentionForwardLayout {
  int64_t keys_transposed, value_rows;
  int64_t query_block, score_block, output_block;  // [kAttentionBlock, padded_head_size or kAttentionBlock]
  int64_t row_max, new_max, correction;            // [kAttentionBlock]
  int64_t row_sum;                                 // [kAttentionBlock, kAttentionPad] partial sums
  int64_t dropout_words;
  int64_t total;

  explicit AttentionForwardLayout(const AttentionHead& head);
};

struct AttentionBackwardLayout {
  int64_t keys_transposed, values_transposed;
  int64_t key_rows, query_rows, d_output_rows, d_query_rows;
  int64_t log_sum_exp, mean;        // [padded_seq]
  int64_t probabilities, d_scores;  // [kAttentionBlock, kAttentionBlock]
  int64_t d_key_block, d_value_block;
  int64_t dropout_words;
  int64_t total;

  explicit AttentionBackwardLayout(const AttentionHead& head);
};

// The task of (sample, head index) of an operation. Of a forward pass, the fields of the gradient stay null.
AttentionHead MakeAttentionHead(const Attention& attention, int64_t sample, int64_t head);
AttentionHead MakeAttentionHead(const AttentionGradient& gradient, int64_t sample, int64_t head);

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_CPU_ATTENTION_HEAD_H_
