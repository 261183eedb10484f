#ifndef STAGECOACH_WORKER_DEVICE_TENSOR_OPERATIONS_H_
#define STAGECOACH_WORKER_DEVICE_TENSOR_OPERATIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device.h"

namespace stagecoach {

// The vocabulary of layers and optimizers, in families. Every method enqueues on `stream` and returns ABORTED when the
// stream is cancelled, INVALID_ARGUMENT when shapes or dtypes do not fit. A zero-row operand is a no-op that leaves
// accumulators alone (and writes zeros to sums that are not accumulated).
//
// Floating-point tensors have the device's compute dtype unless said otherwise. Results are a function of operands,
// shapes and the numerics class alone: reductions use a fixed blocking that depends on the shape only. "Accumulate"
// means c = c + new, where `new` is first summed by itself or added in a fixed order; in both cases equal calls in
// equal order give equal bits.

// c [m, n] = op(a) op(b) (+ c if accumulate) (+ bias [n], broadcast over rows). All of rank 2.
struct Matmul {
  Tensor a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Tensor bias = {};  // empty: none
};

class MatmulOperations {
 public:
  virtual ~MatmulOperations() = default;
  virtual absl::Status EnqueueMatmul(Stream& stream, const Matmul& matmul) = 0;
  // sum [n] += column sums of rows [m, n]: a bias gradient.
  virtual absl::Status EnqueueColumnSum(Stream& stream, const Tensor& rows, const Tensor& sum) = 0;
};

// Which elements an operation drops, as a pure function of (seed, global sample index, element), see common/philox.h:
// for sample s of the micro-batch the key is MixSeed(seed, first_sample + s), the counter is {element / 4 (low, high
// word), 0, 0}, and the element, counted within its sample, is kept when word element % 4 is >= floor(probability *
// 2^32). Kept values are scaled by 1 / (1 - probability). `seed` already mixes the job's seed, the step, the layer and
// the operation.
struct Dropout {
  double probability = 0;  // 0: none
  uint64_t seed = 0;
  uint64_t first_sample = 0;  // global sample index of sample 0
};

// Causal self-attention, scaled by 1/sqrt(head_size). The score matrix is never stored.
struct AttentionShape {
  int64_t samples = 0, seq = 0, heads = 0, head_size = 0;
};
struct Attention {
  AttentionShape shape;
  Tensor qkv;          // [samples, seq, 3 * heads * head_size]: q, k, v side by side, heads within each
  Tensor output;       // [samples, seq, heads * head_size]
  Tensor log_sum_exp;  // [samples, heads, seq]
  // Of the probabilities, after normalisation; element (head * seq + query) * seq + key of its sample.
  Dropout dropout;
};
struct AttentionGradient {
  Attention forward;  // qkv, output and log_sum_exp as Forward left them
  Tensor d_output;
  Tensor d_qkv;  // written
};

class AttentionOperations {
 public:
  virtual ~AttentionOperations() = default;
  virtual absl::Status EnqueueForward(Stream& stream, const Attention& attention) = 0;
  virtual absl::Status EnqueueBackward(Stream& stream, const AttentionGradient& gradient) = 0;
};

// Layer norm over the last dimension. `mean_rstd` [rows, 2].
class NormOperations {
 public:
  virtual ~NormOperations() = default;
  virtual absl::Status EnqueueForward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                      double epsilon, const Tensor& y, const Tensor& mean_rstd) = 0;
  // dx = (dx if accumulate) + gradient through the norm.
  virtual absl::Status EnqueueBackwardInput(Stream& stream, const Tensor& x, const Tensor& mean_rstd,
                                            const Tensor& gamma, const Tensor& dy, bool accumulate,
                                            const Tensor& dx) = 0;
  // d_gamma += , d_beta +=
  virtual absl::Status EnqueueBackwardWeight(Stream& stream, const Tensor& x, const Tensor& mean_rstd, const Tensor& dy,
                                             const Tensor& d_gamma, const Tensor& d_beta) = 0;
};

class ElementwiseOperations {
 public:
  virtual ~ElementwiseOperations() = default;
  // The tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's.
  virtual absl::Status EnqueueGelu(Stream& stream, const Tensor& x, const Tensor& y) = 0;
  // dx may be dy.
  // dx may be dy.
  virtual absl::Status EnqueueGeluGradient(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) = 0;
  virtual absl::Status EnqueueAdd(Stream& stream, const Tensor& a, const Tensor& b,
                                  const Tensor& sum) = 0;  // sum may be a or b
  // y = dropout(x) (+ residual if not empty); y may be x or residual. Of a gradient: the same call without residual.
  // The first dimension of x counts samples, so x has rank 2 or more.
  virtual absl::Status EnqueueDropoutAdd(Stream& stream, const Tensor& x, const Dropout& dropout,
                                         const Tensor& residual, const Tensor& y) = 0;
  virtual absl::Status EnqueueFill(Stream& stream, const Tensor& t, double value) = 0;
  // Element e gets mean-0 normal noise: Box-Muller over Philox words with key `seed` and counter {e / 2 (low, high
  // word), 0, 0}: u1, u2 from words 0 and 1, e even takes the cosine, e odd the sine, computed in float64 and rounded
  // once to the tensor's dtype; worker/device/normal_noise.h has the formulas.
  virtual absl::Status EnqueueNormal(Stream& stream, const Tensor& t, double standard_deviation, uint64_t seed) = 0;
};

class VocabularyOperations {
 public:
  virtual ~VocabularyOperations() = default;
  // y [samples, seq, hidden] = table[tokens] + positions[0..seq). tokens i32 [samples, seq]; INVALID_ARGUMENT for one
  // outside.
  virtual absl::Status EnqueueEmbedding(Stream& stream, const Tensor& tokens, const Tensor& table,
                                        const Tensor& positions, const Tensor& y) = 0;
  // d_table[token] += dy, d_positions[position] += dy, in row order.
  virtual absl::Status EnqueueEmbeddingGradient(Stream& stream, const Tensor& tokens, const Tensor& dy,
                                                const Tensor& d_table, const Tensor& d_positions) = 0;
  // Of logits [rows, vocab] and labels i32 [rows]: log_sum_exp [rows] and loss f64 [rows], both 0 where the label is
  // negative: masked. INVALID_ARGUMENT for a label past the vocabulary.
  virtual absl::Status EnqueueCrossEntropy(Stream& stream, const Tensor& logits, const Tensor& labels,
                                           const Tensor& log_sum_exp, const Tensor& loss) = 0;
  // Overwrites logits [rows, columns] by scale * (softmax - one-hot); rows with a negative label become 0. The columns
  // may be a tile of the vocabulary that begins at `first_column`: log_sum_exp is of the whole row.
  virtual absl::Status EnqueueCrossEntropyGradient(Stream& stream, const Tensor& logits, int64_t first_column,
                                                   const Tensor& labels, const Tensor& log_sum_exp, double scale) = 0;
};

// gradient = gradient_factor x accumulator, rounded to the dtype; see worker/device/update_steps.h for the exact order
// of operations, which a keeper of a shadow and a GPU repeat bit for bit: every multiply-add is explicit, division and
// square root correctly rounded.
struct AdamW {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double bias_correction1, bias_correction2;  // 1 - beta^num_updates, computed once by whoever holds the commit record
  double gradient_factor;
};
struct Sgd {
  double learning_rate, momentum, weight_decay;
  bool nesterov;
  bool first_update;  // momentum = gradient
  double gradient_factor;
};

class UpdateOperations {
 public:
  virtual ~UpdateOperations() = default;
  virtual absl::Status EnqueueAdamW(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                    const Tensor& exp_avg, const Tensor& exp_avg_sq, const AdamW& update) = 0;
  virtual absl::Status EnqueueSgd(Stream& stream, const Tensor& parameter, const Tensor& gradient,
                                  const Tensor& momentum /* may be empty */, const Sgd& update) = 0;
  // Writes sum of squares (f64 [1]) and the number of non-finite elements (i64 [1]).
  virtual absl::Status EnqueueSquaredNorm(Stream& stream, const Tensor& t, const Tensor& squared_norm,
                                          const Tensor& num_non_finite) = 0;
  // Writes formats/tensor_digest.h's two words (u64 [2]).
  virtual absl::Status EnqueueDigest(Stream& stream, const Tensor& t, const Tensor& digest) = 0;
};

class TensorOperations {
 public:
  virtual ~TensorOperations() = default;
  virtual MatmulOperations& matmul() = 0;
  virtual AttentionOperations& attention() = 0;
  virtual NormOperations& norm() = 0;
  virtual ElementwiseOperations& elementwise() = 0;
  virtual VocabularyOperations& vocabulary() = 0;
  virtual UpdateOperations& update() = 0;
};

}  // namespace stagecoach

#endif  // STAGECOACH_WORKER_DEVICE_TENSOR_OPERATIONS_H_
