#include "worker/device/cpu/cpu_vocabulary_operations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "common/status_macros.h"
#include "worker/device/cpu/parallel_for.h"
#include "worker/device/operation_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/cpu_vocabulary_operations.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "worker/device/cpu/exp-inl.h"
#include "worker/device/cpu/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stagecoach {
namespace HWY_NAMESPACE {
namespace {

void SumRows(const float* a, const float* b, float* sum, size_t size) {
  ForEachVector(size, [=](size_t i, auto memory)
                          HWY_ATTR { memory.Store(hn::Add(memory.Load(a + i), memory.Load(b + i)), sum + i); });
}

float Largest(const float* x, size_t size) {
  const FloatTag d;
  const FloatVector least = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVector largest = least;
  ForEachVector(size, [&](size_t i, auto memory)
                          HWY_ATTR { largest = hn::Max(largest, memory.FillOutside(memory.Load(x + i), least)); });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

float SumOfExponentials(const float* x, float shift, size_t size) {
  const FloatTag d;
  FloatVector sum = hn::Zero(d);
  ForEachVector(size, [&](size_t i, auto memory) HWY_ATTR {
    const FloatVector shifted = hn::Sub(memory.Load(x + i), hn::Set(d, shift));
    sum = hn::Add(sum, memory.ZeroOutside(ExpBelow88(d, shifted)));
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// x = scale e^(x - log_sum_exp)
void ScaledSoftmax(float* x, float log_sum_exp, float scale, size_t size) {
  const FloatTag d;
  ForEachVector(size, [=](size_t i, auto memory) HWY_ATTR {
    const FloatVector shifted = hn::Sub(memory.Load(x + i), hn::Set(d, log_sum_exp));
    memory.Store(hn::Mul(hn::Set(d, scale), ExpBelow88(d, shifted)), x + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace stagecoach
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stagecoach {
namespace {

HWY_EXPORT(SumRows);
HWY_EXPORT(Largest);
HWY_EXPORT(SumOfExponentials);
HWY_EXPORT(ScaledSoftmax);

constexpr int64_t kElementsPerTask = 16384;
constexpr int64_t kColumnsPerTask = 64;  // of an embedding gradient
constexpr int64_t kSumBlock = 1024;      // logits: sums of so many are f32, and are added in f64

template <typename Body>
void ForEachRow(int threads, int64_t num_rows, int64_t columns, const Body& body) {
  const int64_t rows = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, columns));
  ParallelFor(threads, (num_rows + rows - 1) / rows, [&](int64_t task) {
    const int64_t last = std::min(num_rows, (task + 1) * rows);
    for (int64_t row = task * rows; row < last; ++row) body(row);
  });
}

double LogSumExp(const float* logits, int64_t vocab) {
  const float largest = HWY_DYNAMIC_DISPATCH(Largest)(logits, static_cast<size_t>(vocab));
  double sum = 0;
  for (int64_t first = 0; first < vocab; first += kSumBlock) {
    const size_t size = static_cast<size_t>(std::min(kSumBlock, vocab - first));
    sum += static_cast<double>(HWY_DYNAMIC_DISPATCH(SumOfExponentials)(logits + first, largest, size));
  }
  return static_cast<double>(largest) + std::log(sum);
}

}  // namespace

absl::Status CpuVocabularyOperations::EnqueueEmbedding(Stream& stream, const Tensor& tokens, const Tensor& table,
                                                       const Tensor& positions, const Tensor& y) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckEmbedding(tokens, table, positions, y, v1::DTYPE_F32));
  const int64_t hidden = table.columns();
  const int64_t seq = tokens.columns();
  ForEachRow(threads_, tokens.num_elements(), hidden, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(SumRows)
    (table.as<float>() + tokens.as<int32_t>()[row] * hidden, positions.as<float>() + row % seq * hidden,
     y.as<float>() + row * hidden, static_cast<size_t>(hidden));
  });
  return absl::OkStatus();
}

absl::Status CpuVocabularyOperations::EnqueueEmbeddingGradient(Stream& stream, const Tensor& tokens, const Tensor& dy,
                                                               const Tensor& d_table, const Tensor& d_positions) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckEmbedding(tokens, d_table, d_positions, dy, v1::DTYPE_F32));
  const int64_t hidden = dy.columns();
  const int64_t seq = tokens.columns();
  const int64_t rows = tokens.num_elements();
  ParallelFor(threads_, (hidden + kColumnsPerTask - 1) / kColumnsPerTask, [&](int64_t task) {
    const int64_t first = task * kColumnsPerTask;
    const size_t size = static_cast<size_t>(std::min(kColumnsPerTask, hidden - first));
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = dy.as<float>() + row * hidden + first;
      float* const token = d_table.as<float>() + tokens.as<int32_t>()[row] * hidden + first;
      float* const position = d_positions.as<float>() + row % seq * hidden + first;
      HWY_DYNAMIC_DISPATCH(SumRows)(token, from, token, size);
      HWY_DYNAMIC_DISPATCH(SumRows)(position, from, position, size);
    }
  });
  return absl::OkStatus();
}

absl::Status CpuVocabularyOperations::EnqueueCrossEntropy(Stream& stream, const Tensor& logits, const Tensor& labels,
                                                          const Tensor& log_sum_exp, const Tensor& loss) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckCrossEntropy(logits, labels, log_sum_exp, loss, v1::DTYPE_F32));
  const int64_t vocab = logits.columns();
  ForEachRow(threads_, logits.rows(), vocab, [&](int64_t row) {
    const float* const scores = logits.as<float>() + row * vocab;
    const int32_t label = labels.as<int32_t>()[row];
    const double sum = label < 0 ? 0 : LogSumExp(scores, vocab);
    log_sum_exp.as<float>()[row] = static_cast<float>(sum);
    loss.as<double>()[row] = label < 0 ? 0 : sum - static_cast<double>(scores[label]);
  });
  return absl::OkStatus();
}

absl::Status CpuVocabularyOperations::EnqueueCrossEntropyGradient(Stream& stream, const Tensor& logits,
                                                                  int64_t first_column, const Tensor& labels,
                                                                  const Tensor& log_sum_exp, double scale) {
  STAGECOACH_RETURN_IF_ERROR(stream.CheckNotCancelled());
  STAGECOACH_RETURN_IF_ERROR(CheckCrossEntropyGradient(logits, first_column, labels, log_sum_exp, v1::DTYPE_F32));
  const int64_t columns = logits.columns();
  const float factor = static_cast<float>(scale);
  ForEachRow(threads_, logits.rows(), columns, [&](int64_t row) {
    float* const scores = logits.as<float>() + row * columns;
    const int32_t label = labels.as<int32_t>()[row];
    if (label < 0) {
      std::fill_n(scores, columns, 0.0f);
      return;
    }
    HWY_DYNAMIC_DISPATCH(ScaledSoftmax)
    (scores, log_sum_exp.as<float>()[row], factor, static_cast<size_t>(columns));
    if (label >= first_column && label < first_column + columns) scores[label - first_column] -= factor;
  });
  return absl::OkStatus();
}

}  // namespace stagecoach

#endif  // HWY_ONCE
