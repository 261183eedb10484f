#include "worker/device/reference/reference_attention_operations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "worker/device/operation_checks.h"
#include "worker/device/reference/dropout_mask.h"

namespace stagecoach {
namespace {

// Addresses one head of one sample. Rows of q, k and v are `3 * hidden` apart, of the output `hidden`.
struct Head {
  const AttentionShape& shape;
  int64_t sample;
  int64_t head;

  int64_t hidden() const { return shape.heads * shape.head_size; }
  int64_t Output(int64_t row) const { return (sample * shape.seq + row) * hidden() + head * shape.head_size; }
  // part 0: q, 1: k, 2: v
  int64_t Qkv(int64_t row, int64_t part) const {
    return (sample * shape.seq + row) * 3 * hidden() + part * hidden() + head * shape.head_size;
  }
  int64_t LogSumExp(int64_t row) const { return (sample * shape.heads + head) * shape.seq + row; }
  double Factor(const Dropout& dropout, int64_t query, int64_t key) const {
    return DropoutFactor(dropout, sample, (head * shape.seq + query) * shape.seq + key);
  }
};

double Dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// sum += factor * x
void AddScaled(double factor, const double* x, int64_t size, double* sum) {
  for (int64_t i = 0; i < size; ++i) sum[i] += factor * x[i];
}

double Scale(const AttentionShape& shape) { return 1 / std::sqrt(static_cast<double>(shape.head_size)); }

void ForwardRow(const Attention& attention, const Head& head, int64_t query) {
  const int64_t size = attention.shape.head_size;
  const double* qkv = attention.qkv.as<double>();
  std::vector<double> scores(static_cast<size_t>(query + 1));
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t key = 0; key <= query; ++key) {
    double& score = scores[static_cast<size_t>(key)];
    score = Scale(attention.shape) * Dot(qkv + head.Qkv(query, 0), qkv + head.Qkv(key, 1), size);
    largest = std::max(largest, score);
  }
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  const double log_sum_exp = largest + std::log(sum);
  attention.log_sum_exp.as<double>()[head.LogSumExp(query)] = log_sum_exp;
  double* output = attention.output.as<double>() + head.Output(query);
  std::fill(output, output + size, 0.0);
  for (int64_t key = 0; key <= query; ++key) {
    const double probability = std::exp(scores[static_cast<size_t>(key)] - log_sum_exp);
    AddScaled(probability * head.Factor(attention.dropout, query, key), qkv + head.Qkv(key, 2), size, output);
  }
}

// With p the probabilities, f the dropout factors, o = sum f p v: d_p = f (do . v); d_score = p (d_p - sum p d_p), and
// that sum is do . o.
void BackwardRow(const AttentionGradient& gradient, const Head& head, int64_t query) {
  const Attention& forward = gradient.forward;
  const int64_t size = forward.shape.head_size;
  const double* qkv = forward.qkv.as<double>();
  double* d_qkv = gradient.d_qkv.as<double>();
  const double* d_output = gradient.d_output.as<double>() + head.Output(query);
  const double* q = qkv + head.Qkv(query, 0);
  const double log_sum_exp = forward.log_sum_exp.as<double>()[head.LogSumExp(query)];
  const double mean = Dot(d_output, forward.output.as<double>() + head.Output(query), size);
  const double scale = Scale(forward.shape);
  for (int64_t key = 0; key <= query; ++key) {
    const double* k = qkv + head.Qkv(key, 1);
    const double* v = qkv + head.Qkv(key, 2);
    const double probability = std::exp(scale * Dot(q, k, size) - log_sum_exp);
    const double factor = head.Factor(forward.dropout, query, key);
    AddScaled(probability * factor, d_output, size, d_qkv + head.Qkv(key, 2));
    const double d_score = scale * probability * (factor * Dot(d_output, v, size) - mean);
    AddScaled(d_score, k, size, d_qkv + head.Qkv(query, 0));
    AddScaled(d_score, q, size, d_qkv + head.Qkv(key, 1));
  }
}

template <typename Row>
void ForEachRow(const AttentionShape& shape, const Row& row) {
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      for (int64_t query = 0; query < shape.seq; ++query) row(Head{shape, sample, head}, query);
    }
  }
}

}  // namespace

absl::Status ReferenceAttentionOperations::EnqueueForward(Stream& stream, const Attention& attention) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAttention(attention, v1::DTYPE_F64));
  ForEachRow(attention.shape, [&](const Head& head, int64_t query) { ForwardRow(attention, head, query); });
  return absl::OkStatus();
}

absl::Status ReferenceAttentionOperations::EnqueueBackward(Stream& stream, const AttentionGradient& gradient) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckAttentionGradient(gradient, v1::DTYPE_F64));
  double* d_qkv = gradient.d_qkv.as<double>();
  std::fill(d_qkv, d_qkv + gradient.d_qkv.num_elements(), 0.0);
  ForEachRow(gradient.forward.shape, [&](const Head& head, int64_t query) { BackwardRow(gradient, head, query); });
  return absl::OkStatus();
}

}  // namespace stagecoach
