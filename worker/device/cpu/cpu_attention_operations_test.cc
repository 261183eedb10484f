#include "worker/device/cpu/cpu_attention_operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/philox.h"
#include "hwy/highway.h"
#include "worker/device/reference/reference_attention_operations.h"

namespace stagecoach {
namespace {

// The tensors of one attention, forward and backward, of float or double.
template <typename T>
struct Tensors {
  std::vector<T> qkv, output, log_sum_exp, d_output, d_qkv;
  AttentionGradient operation;

  explicit Tensors(const AttentionShape& shape, const Dropout& dropout = {}) {
    const int64_t hidden = shape.heads * shape.head_size;
    const auto resize = [](std::vector<T>& v, int64_t size) { v.assign(static_cast<size_t>(size), T{-7}); };
    resize(qkv, shape.samples * shape.seq * 3 * hidden);
    resize(output, shape.samples * shape.seq * hidden);
    resize(log_sum_exp, shape.samples * shape.heads * shape.seq);
    resize(d_output, shape.samples * shape.seq * hidden);
    resize(d_qkv, shape.samples * shape.seq * 3 * hidden);
    const v1::DType dtype = sizeof(T) == 4 ? v1::DTYPE_F32 : v1::DTYPE_F64;
    Attention& forward = operation.forward;
    forward.shape = shape;
    forward.qkv = Tensor::Of(qkv.data(), dtype, {shape.samples, shape.seq, 3 * hidden});
    forward.output = Tensor::Of(output.data(), dtype, {shape.samples, shape.seq, hidden});
    forward.log_sum_exp = Tensor::Of(log_sum_exp.data(), dtype, {shape.samples, shape.heads, shape.seq});
    forward.dropout = dropout;
    operation.d_output = Tensor::Of(d_output.data(), dtype, {shape.samples, shape.seq, hidden});
    operation.d_qkv = Tensor::Of(d_qkv.data(), dtype, {shape.samples, shape.seq, 3 * hidden});
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  // The same numbers for float and double.
  void FillInputs(double magnitude) {
    uint32_t state = 12345;
    const auto next = [&state, magnitude] {
      state = state * 1664525u + 1013904223u;
      return static_cast<T>(static_cast<float>((static_cast<double>(state >> 8) * 0x1p-23 - 1) * magnitude));
    };
    std::generate(qkv.begin(), qkv.end(), next);
    std::generate(d_output.begin(), d_output.end(), next);
  }

  void Run(AttentionOperations& operations) {
    Stream stream;
    ASSERT_EQ(operations.EnqueueForward(stream, operation.forward), absl::OkStatus());
    ASSERT_EQ(operations.EnqueueBackward(stream, operation), absl::OkStatus());
  }
};

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, double bound, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], bound * (1 + std::fabs(want[i]))) << what << " at " << i;
  }
}

void ExpectMatchesReference(const AttentionShape& shape, const Dropout& dropout, double magnitude, double bound) {
  SCOPED_TRACE(testing::Message() << shape.samples << " samples, seq " << shape.seq << ", " << shape.heads
                                  << " heads of " << shape.head_size << ", dropout " << dropout.probability);
  Tensors<float> ours(shape, dropout);
  Tensors<double> want(shape, dropout);
  ours.FillInputs(magnitude);
  want.FillInputs(magnitude);
  CpuWorkspace workspace;
  CpuAttentionOperations operations(2, &workspace);
  ReferenceAttentionOperations reference;
  ours.Run(operations);
  want.Run(reference);
  ExpectNear(ours.output, want.output, bound, "output");
  ExpectNear(ours.log_sum_exp, want.log_sum_exp, bound, "log_sum_exp");
  ExpectNear(ours.d_qkv, want.d_qkv, bound, "d_qkv");
}

// Runs with the kernels of one instruction set, and goes back to the best at the end.
class ScopedInstructionSet {
 public:
  explicit ScopedInstructionSet(int64_t target) { Choose(target); }
  ~ScopedInstructionSet() { Choose(0); }

 private:
  static void Choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST(CpuAttentionOperationsTest, MatchesReferenceAtTheEdgesOfItsBlocks) {
  for (const int64_t seq : {1, 2, 15, 16, 17, 63, 64, 65, 130}) {
    for (const int64_t head_size : {1, 3, 16, 20}) {
      ExpectMatchesReference({2, seq, 2, head_size}, {}, 1, 2e-6);
      ExpectMatchesReference({2, seq, 2, head_size}, {.probability = 0.3, .seed = 5, .first_sample = 9}, 1, 4e-6);
    }
  }
}

TEST(CpuAttentionOperationsTest, MatchesReferenceForTypicalAndOddHeads) {
  for (const int64_t head_size : {32, 64, 65, 80, 128}) {
    ExpectMatchesReference({1, 200, 1, head_size}, {.probability = 0.1, .seed = 5, .first_sample = 0}, 1, 4e-6);
  }
}

TEST(CpuAttentionOperationsTest, MatchesReferenceWithEveryInstructionSet) {
  for (const int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    const ScopedInstructionSet chosen(target);
    ExpectMatchesReference({2, 83, 3, 24}, {}, 1, 2e-6);
    ExpectMatchesReference({2, 83, 3, 24}, {.probability = 0.5, .seed = 1, .first_sample = 3}, 1, 4e-6);
    ExpectMatchesReference({1, 70, 1, 64}, {}, 1, 2e-6);
  }
}

TEST(CpuAttentionOperationsTest, MatchesReferenceForALongSequenceOfTinyHeads) {
  ExpectMatchesReference({1, 1500, 1, 1}, {.probability = 0.2, .seed = 8, .first_sample = 0}, 1, 1e-5);
}

TEST(CpuAttentionOperationsTest, StaysFiniteForLargeScores) {
  // Scores and d_output . v are thousands, so what cancels leaves thousandths.
  ExpectMatchesReference({1, 140, 1, 16}, {}, 40, 2e-2);
}

TEST(CpuAttentionOperationsTest, DropsWhatPhiloxSays) {
  constexpr int64_t kSeq = 50, kHeads = 2;
  const AttentionShape shape{2, kSeq, kHeads, kSeq};
  const Dropout dropout{.probability = 0.4, .seed = 77, .first_sample = 1000};
  Tensors<float> tensors(shape, dropout);
  // With q = 0 the probabilities of query i are 1 / (i + 1); with v and d_output the identity, the output and the
  // gradient of v are the dropped probabilities themselves.
  std::fill(tensors.qkv.begin(), tensors.qkv.end(), 0.0f);
  std::fill(tensors.d_output.begin(), tensors.d_output.end(), 0.0f);
  const auto at = [&](int64_t sample, int64_t row, int64_t part, int64_t parts, int64_t head, int64_t i) {
    return static_cast<size_t>((((sample * kSeq + row) * parts + part) * kHeads + head) * kSeq + i);
  };
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t i = 0; i < kSeq; ++i) {
        tensors.qkv[at(sample, i, 2, 3, head, i)] = 1;
        tensors.d_output[at(sample, i, 0, 1, head, i)] = 1;
      }
    }
  }
  CpuWorkspace workspace;
  CpuAttentionOperations operations(1, &workspace);
  tensors.Run(operations);
  int dropped = 0;
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t query = 0; query < kSeq; ++query) {
        for (int64_t key = 0; key <= query; ++key) {
          const auto element = static_cast<uint64_t>((head * kSeq + query) * kSeq + key);
          const PhiloxKey philox_key = PhiloxKeyFrom(MixSeed(77, 1000 + static_cast<uint64_t>(sample)));
          const uint32_t word = Philox({static_cast<uint32_t>(element / 4), 0, 0, 0}, philox_key)[element % 4];
          const bool keep = word >= static_cast<uint32_t>(0.4 * 0x1p32);
          const float want = keep ? 1.0f / 0.6f / static_cast<float>(query + 1) : 0;
          ASSERT_NEAR(tensors.output[at(sample, query, 0, 1, head, key)], want, 1e-6f);
          ASSERT_NEAR(tensors.d_qkv[at(sample, key, 2, 3, head, query)], want, 1e-6f);
          dropped += keep ? 0 : 1;
        }
      }
    }
  }
  EXPECT_NEAR(dropped, 0.4 * 4 * kSeq * (kSeq + 1) / 2, 200);
}

TEST(CpuAttentionOperationsTest, GivesTheSameBitsWithAnyNumberOfThreads) {
  const AttentionShape shape{3, 100, 5, 20};
  const Dropout dropout{.probability = 0.1, .seed = 3, .first_sample = 0};
  Tensors<float> first(shape, dropout);
  first.FillInputs(1);
  CpuWorkspace workspace;
  CpuAttentionOperations one_thread(1, &workspace);
  first.Run(one_thread);
  for (const int threads : {2, 3, 8, 32}) {
    Tensors<float> again(shape, dropout);
    again.FillInputs(1);
    CpuAttentionOperations operations(threads, &workspace);
    again.Run(operations);
    EXPECT_EQ(std::memcmp(first.output.data(), again.output.data(), first.output.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(first.d_qkv.data(), again.d_qkv.data(), first.d_qkv.size() * sizeof(float)), 0);
  }
}

TEST(CpuAttentionOperationsTest, GivesASampleTheSameBitsWhateverTheMicroBatch) {
  const Dropout dropout{.probability = 0.1, .seed = 3, .first_sample = 4};
  Tensors<float> together({3, 70, 2, 16}, dropout);
  together.FillInputs(1);
  CpuWorkspace workspace;
  CpuAttentionOperations operations(1, &workspace);
  together.Run(operations);
  Tensors<float> alone({1, 70, 2, 16}, {.probability = 0.1, .seed = 3, .first_sample = 6});  // the third sample
  std::copy_n(together.qkv.end() - static_cast<int64_t>(alone.qkv.size()), alone.qkv.size(), alone.qkv.begin());
  alone.Run(operations);
  EXPECT_TRUE(std::equal(alone.output.begin(), alone.output.end(),
                         together.output.end() - static_cast<int64_t>(alone.output.size())));
}

TEST(CpuAttentionOperationsTest, NeverLooksAtLaterKeys) {
  const AttentionShape shape{1, 90, 1, 16};
  Tensors<float> before(shape), after(shape);
  before.FillInputs(1);
  after.FillInputs(1);
  constexpr int64_t kChanged = 75;
  for (size_t i = kChanged * 3 * 16; i < after.qkv.size(); ++i) after.qkv[i] += 100;
  CpuWorkspace workspace;
  CpuAttentionOperations operations(1, &workspace);
  before.Run(operations);
  after.Run(operations);
  EXPECT_TRUE(std::equal(before.output.begin(), before.output.begin() + kChanged * 16, after.output.begin()));
  EXPECT_FALSE(std::equal(before.output.begin(), before.output.end(), after.output.begin()));
}

TEST(CpuAttentionOperationsTest, ShowsNonFiniteInputs) {
  const AttentionShape shape{1, 40, 1, 8};
  Tensors<float> tensors(shape);
  tensors.FillInputs(1);
  tensors.qkv[20 * 3 * 8 + 8] = std::nanf("");  // k of position 20
  CpuWorkspace workspace;
  CpuAttentionOperations operations(1, &workspace);
  tensors.Run(operations);
  EXPECT_TRUE(std::isnan(tensors.output[25 * 8]));
  EXPECT_TRUE(std::isfinite(tensors.output[10 * 8]));
}

TEST(CpuAttentionOperationsTest, ReusesItsWorkspace) {
  CpuWorkspace workspace;
  CpuAttentionOperations operations(2, &workspace);
  Tensors<float> large({2, 100, 2, 16}), small({1, 10, 1, 4});
  large.FillInputs(1);
  small.FillInputs(1);
  large.Run(operations);
  const size_t bytes = workspace.bytes();
  EXPECT_GT(bytes, size_t{0});
  small.Run(operations);
  large.Run(operations);
  EXPECT_EQ(workspace.bytes(), bytes);
}

TEST(CpuAttentionOperationsTest, DoesNothingForNoSamplesAndRefusesACancelledStream) {
  CpuWorkspace workspace;
  CpuAttentionOperations operations(1, &workspace);
  Tensors<float> tensors({1, 4, 1, 4});
  AttentionGradient none = tensors.operation;
  none.forward.shape.samples = 0;
  for (Tensor* t : {&none.forward.qkv, &none.forward.output, &none.forward.log_sum_exp, &none.d_output, &none.d_qkv}) {
    t->dims[0] = 0;
  }
  Stream stream;
  EXPECT_EQ(operations.EnqueueForward(stream, none.forward), absl::OkStatus());
  EXPECT_EQ(operations.EnqueueBackward(stream, none), absl::OkStatus());
  EXPECT_EQ(tensors.output[0], -7.0f);
  stream.Cancel();
  EXPECT_EQ(operations.EnqueueForward(stream, tensors.operation.forward).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(operations.EnqueueBackward(stream, tensors.operation).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace stagecoach
