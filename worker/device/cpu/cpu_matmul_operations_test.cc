#include "worker/device/cpu/cpu_matmul_operations.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace stagecoach {
namespace {

std::vector<float> RandomFloats(int64_t size, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(size));
  uint32_t state = seed;
  std::generate(result.begin(), result.end(), [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) * 0x1p-23f - 1;
  });
  return result;
}

struct Case {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
};

// Operands of one product.
struct Operands {
  std::vector<float> a, b, c, bias;
  Matmul matmul;

  explicit Operands(const Case& shape)
      : a(RandomFloats(shape.m * shape.k, 1)),
        b(RandomFloats(shape.k * shape.n, 2)),
        c(RandomFloats(shape.m * shape.n, 3)),
        bias(RandomFloats(shape.n, 4)) {
    // An empty vector has no address, and a tensor without one is no tensor.
    for (std::vector<float>* v : {&a, &b, &c, &bias}) v->reserve(1);
    const auto matrix = [](std::vector<float>& v, bool transposed, int64_t rows, int64_t columns) {
      return transposed ? Tensor::Of(v.data(), v1::DTYPE_F32, {columns, rows})
                        : Tensor::Of(v.data(), v1::DTYPE_F32, {rows, columns});
    };
    matmul.a = matrix(a, shape.transpose_a, shape.m, shape.k);
    matmul.b = matrix(b, shape.transpose_b, shape.k, shape.n);
    matmul.c = matrix(c, false, shape.m, shape.n);
    matmul.transpose_a = shape.transpose_a;
    matmul.transpose_b = shape.transpose_b;
    matmul.accumulate = shape.accumulate;
    if (shape.bias) matmul.bias = Tensor::Of(bias.data(), v1::DTYPE_F32, {shape.n});
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
};

// Element (row, column), in float64, from operands as they were before.
double Want(const Case& shape, const Operands& before, int64_t row, int64_t column) {
  double sum = shape.accumulate ? before.c[static_cast<size_t>(row * shape.n + column)] : 0.0;
  if (shape.bias) sum += before.bias[static_cast<size_t>(column)];
  for (int64_t k = 0; k < shape.k; ++k) {
    const int64_t a = shape.transpose_a ? k * shape.m + row : row * shape.k + k;
    const int64_t b = shape.transpose_b ? column * shape.k + k : k * shape.n + column;
    sum += double{before.a[static_cast<size_t>(a)]} * before.b[static_cast<size_t>(b)];
  }
  return sum;
}

class CpuMatmulOperationsTest : public testing::Test {
 protected:
  std::unique_ptr<CpuMatmulOperations> Create(int threads) {
    absl::StatusOr<std::unique_ptr<CpuMatmulOperations>> operations = CpuMatmulOperations::Create(threads, &workspace_);
    EXPECT_EQ(operations.status(), absl::OkStatus());
    return *std::move(operations);
  }

  // Checks every element, or of large products a sample.
  void ExpectProduct(CpuMatmulOperations& operations, const Case& shape) {
    SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << " transposed "
                                    << shape.transpose_a << shape.transpose_b << " accumulate " << shape.accumulate
                                    << " bias " << shape.bias);
    const Operands before(shape);
    Operands after(shape);
    ASSERT_EQ(operations.EnqueueMatmul(stream_, after.matmul), absl::OkStatus());
    const int64_t step = std::max<int64_t>(1, shape.m * shape.n / 500);
    for (int64_t i = 0; i < shape.m * shape.n; i += step) {
      ASSERT_NEAR(after.c[static_cast<size_t>(i)], Want(shape, before, i / shape.n, i % shape.n),
                  1e-6 * static_cast<double>(shape.k + 2))
          << "element " << i;
    }
  }

  CpuWorkspace workspace_;
  Stream stream_;
};

TEST_F(CpuMatmulOperationsTest, MultipliesInEveryForm) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(2);
  for (int bits = 0; bits < 16; ++bits) {
    const bool transpose_a = (bits & 1) != 0, transpose_b = (bits & 2) != 0, accumulate = (bits & 4) != 0;
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {3, 5, 7}, {17, 1, 40}, {64, 48, 33}}) {
      ExpectProduct(*operations, {m, n, k, transpose_a, transpose_b, accumulate, (bits & 8) != 0});
    }
  }
}

TEST_F(CpuMatmulOperationsTest, MultipliesWithAPackedRightOperand) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(1);
  ExpectProduct(*operations, {1024, 256, 256});
  ExpectProduct(*operations, {1100, 300, 257, false, false, true, true});  // no multiple of a packed block
  ExpectProduct(*operations, {1100, 300, 257, false, false, true, true});  // with the primitive that exists
}

TEST_F(CpuMatmulOperationsTest, EmptyProductsNeverReachOneDnn) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(1);
  ExpectProduct(*operations, {0, 4, 4});
  ExpectProduct(*operations, {4, 0, 4});
  ExpectProduct(*operations, {0, 0, 0});
  for (const bool accumulate : {false, true}) {
    for (const bool bias : {false, true}) ExpectProduct(*operations, {3, 4, 0, false, false, accumulate, bias});
  }
}

TEST_F(CpuMatmulOperationsTest, KeepsWorkingWithMoreShapesThanItRemembers) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(1);
  for (int round = 0; round < 2; ++round) {
    for (int64_t m = 1; m <= 300; ++m) ExpectProduct(*operations, {m, 3, 2});
  }
}

TEST_F(CpuMatmulOperationsTest, WorkspaceStopsGrowing) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(1);
  ExpectProduct(*operations, {1024, 256, 256});
  ExpectProduct(*operations, {256, 256, 300, true, false, true, false});
  const size_t bytes = workspace_.bytes();
  // Kernels of a processor without AVX-512 take it as it is.
  if (__builtin_cpu_supports("avx512f")) {
    EXPECT_GE(bytes, size_t{256 * 256 * 4}) << "the packed operand lies in it";
  }
  ExpectProduct(*operations, {1024, 256, 256});
  ExpectProduct(*operations, {256, 256, 300, true, false, true, false});
  EXPECT_EQ(workspace_.bytes(), bytes);
}

TEST_F(CpuMatmulOperationsTest, DevicesOfDifferentThreadsDoNotDisturbEachOther) {
  const Case shape{300, 200, 700, true, false, false, false};
  const std::unique_ptr<CpuMatmulOperations> one = Create(1), three = Create(3);
  Operands first(shape), second(shape), other(shape);
  ASSERT_EQ(one->EnqueueMatmul(stream_, first.matmul), absl::OkStatus());
  EXPECT_EQ(omp_get_max_threads(), 1) << "what oneDNN goes by";
  ASSERT_EQ(three->EnqueueMatmul(stream_, other.matmul), absl::OkStatus());
  EXPECT_EQ(omp_get_max_threads(), 3);
  ASSERT_EQ(one->EnqueueMatmul(stream_, second.matmul), absl::OkStatus());
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(first.c, second.c);
}

TEST_F(CpuMatmulOperationsTest, AddsColumnSumsWithTheSameBitsForAnyThreads) {
  for (const int64_t rows : {0, 1, 5, 64, 131}) {
    for (const int64_t columns : {1, 15, 512, 1300}) {
      std::vector<float> values = RandomFloats(rows * columns, 1);
      values.reserve(1);
      const std::vector<float> start = RandomFloats(columns, 2);
      std::vector<std::vector<float>> sums;
      for (const int threads : {1, 2, 5}) {
        std::vector<float>& sum = sums.emplace_back(start);
        ASSERT_EQ(Create(threads)->EnqueueColumnSum(stream_, Tensor::Of(values.data(), v1::DTYPE_F32, {rows, columns}),
                                                    Tensor::Of(sum.data(), v1::DTYPE_F32, {columns})),
                  absl::OkStatus());
        EXPECT_EQ(sum, sums[0]);
      }
      for (int64_t column = 0; column < columns; ++column) {
        double want = start[static_cast<size_t>(column)];
        for (int64_t row = 0; row < rows; ++row) want += values[static_cast<size_t>(row * columns + column)];
        ASSERT_NEAR(sums[0][static_cast<size_t>(column)], want, 2e-5);
      }
    }
  }
}

TEST_F(CpuMatmulOperationsTest, RefusesWrongShapesAndCancelledStreams) {
  const std::unique_ptr<CpuMatmulOperations> operations = Create(1);
  Operands operands({4, 5, 6});
  Matmul wrong = operands.matmul;
  wrong.transpose_b = true;
  EXPECT_EQ(operations->EnqueueMatmul(stream_, wrong).code(), absl::StatusCode::kInvalidArgument);
  Stream cancelled;
  cancelled.Cancel();
  EXPECT_EQ(operations->EnqueueMatmul(cancelled, operands.matmul).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace stagecoach
