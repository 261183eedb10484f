// Every backward operation of the reference device against central differences of its forward operation. The other
// devices are compared with the reference.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/conformance/test_device.h"

namespace stagecoach {
namespace {

class ReferenceGradientsTest : public testing::Test {
 protected:
  TestDevice device_{ReferenceUnderTest()};
  TensorOperations& on_ = device_.operations();
  Stream& stream_ = device_.stream();

  // sum over outputs of output * weight
  static double Dot(const Tensor& output, const Tensor& weight) {
    double sum = 0;
    for (int64_t i = 0; i < output.num_elements(); ++i) sum += output.as<double>()[i] * weight.as<double>()[i];
    return sum;
  }

  // `objective` reads `input`; `gradient` is the operation's.
  static void ExpectGradient(const std::function<double()>& objective, const Tensor& input, const Tensor& gradient) {
    constexpr double kStep = 1e-5;
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      double& x = input.as<double>()[i];
      const double at = x;
      x = at + kStep;
      const double above = objective();
      x = at - kStep;
      const double below = objective();
      x = at;
      EXPECT_NEAR(gradient.as<double>()[i], (above - below) / (2 * kStep), 1e-8) << "element " << i;
    }
  }
};

TEST_F(ReferenceGradientsTest, OfGelu) {
  const Tensor x = device_.From({-3, -1.5, -0.5, 0, 0.25, 1, 2, 5}, {8});
  const Tensor dy = device_.Random(1, {8});
  const Tensor dx = device_.New({8});
  const Tensor y = device_.New({8});
  ASSERT_TRUE(on_.elementwise().EnqueueGeluGradient(stream_, x, dy, dx).ok());
  const auto objective = [&] {
    EXPECT_TRUE(on_.elementwise().EnqueueGelu(stream_, x, y).ok());
    return Dot(y, dy);
  };
  ExpectGradient(objective, x, dx);
}

TEST_F(ReferenceGradientsTest, OfDropoutAdd) {
  const Tensor x = device_.Random(1, {2, 3, 4});
  const Tensor residual = device_.Random(2, {2, 3, 4});
  const Tensor dy = device_.Random(3, {2, 3, 4});
  const Tensor dx = device_.New({2, 3, 4});
  const Tensor y = device_.New({2, 3, 4});
  const Dropout dropout = {0.4, 5, 6};
  ASSERT_TRUE(on_.elementwise().EnqueueDropoutAdd(stream_, dy, dropout, Tensor(), dx).ok());
  const auto objective = [&] {
    EXPECT_TRUE(on_.elementwise().EnqueueDropoutAdd(stream_, x, dropout, residual, y).ok());
    return Dot(y, dy);
  };
  ExpectGradient(objective, x, dx);
}

TEST_F(ReferenceGradientsTest, OfLayerNorm) {
  const Tensor x = device_.Random(1, {3, 7});
  const Tensor gamma = device_.Random(2, {7});
  const Tensor beta = device_.Random(3, {7});
  const Tensor dy = device_.Random(4, {3, 7});
  const Tensor y = device_.New({3, 7});
  const Tensor mean_rstd = device_.New({3, 2});
  const auto objective = [&] {
    EXPECT_TRUE(on_.norm().EnqueueForward(stream_, x, gamma, beta, 1e-5, y, mean_rstd).ok());
    return Dot(y, dy);
  };
  objective();
  const Tensor dx = device_.New({3, 7});
  const Tensor d_gamma = device_.New({7});
  const Tensor d_beta = device_.New({7});
  ASSERT_TRUE(on_.norm().EnqueueBackwardInput(stream_, x, mean_rstd, gamma, dy, false, dx).ok());
  ASSERT_TRUE(on_.norm().EnqueueBackwardWeight(stream_, x, mean_rstd, dy, d_gamma, d_beta).ok());
  ExpectGradient(objective, x, dx);
  ExpectGradient(objective, gamma, d_gamma);
  ExpectGradient(objective, beta, d_beta);
}

TEST_F(ReferenceGradientsTest, OfAttention) {
  for (const double probability : {0.0, 0.3}) {
    const Tensor qkv = device_.Random(1, {2, 4, 18});
    const Tensor d_output = device_.Random(2, {2, 4, 6});
    const Attention forward = {.shape = {2, 4, 2, 3},
                               .qkv = qkv,
                               .output = device_.New({2, 4, 6}),
                               .log_sum_exp = device_.New({2, 2, 4}),
                               .dropout = {probability, 9, 3}};
    const auto objective = [&] {
      EXPECT_TRUE(on_.attention().EnqueueForward(stream_, forward).ok());
      return Dot(forward.output, d_output);
    };
    objective();
    const Tensor d_qkv = device_.Random(3, {2, 4, 18});
    ASSERT_TRUE(
        on_.attention().EnqueueBackward(stream_, {.forward = forward, .d_output = d_output, .d_qkv = d_qkv}).ok());
    ExpectGradient(objective, qkv, d_qkv);
  }
}

TEST_F(ReferenceGradientsTest, OfEmbedding) {
  const Tensor tokens = device_.FromIntegers({1, 0, 1, 3, 3, 3}, {2, 3});
  const Tensor table = device_.Random(1, {5, 4});
  const Tensor positions = device_.Random(2, {4, 4});
  const Tensor dy = device_.Random(3, {2, 3, 4});
  const Tensor y = device_.New({2, 3, 4});
  const Tensor d_table = device_.New({5, 4});
  const Tensor d_positions = device_.New({4, 4});
  ASSERT_TRUE(on_.vocabulary().EnqueueEmbeddingGradient(stream_, tokens, dy, d_table, d_positions).ok());
  const auto objective = [&] {
    EXPECT_TRUE(on_.vocabulary().EnqueueEmbedding(stream_, tokens, table, positions, y).ok());
    return Dot(y, dy);
  };
  ExpectGradient(objective, table, d_table);
  ExpectGradient(objective, positions, d_positions);
}

TEST_F(ReferenceGradientsTest, OfCrossEntropy) {
  const double scale = 0.25;
  const Tensor logits = device_.Random(1, {4, 6});
  const Tensor labels = device_.FromIntegers({2, -1, 0, 5}, {4});
  const Tensor log_sum_exp = device_.New({4});
  const Tensor loss = device_.New(v1::DTYPE_F64, {4});
  const auto objective = [&] {
    EXPECT_TRUE(on_.vocabulary().EnqueueCrossEntropy(stream_, logits, labels, log_sum_exp, loss).ok());
    double sum = 0;
    for (int64_t i = 0; i < 4; ++i) sum += scale * loss.as<double>()[i];
    return sum;
  };
  objective();
  const Tensor gradient = device_.From(ValuesOf(logits), {4, 6});
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropyGradient(stream_, gradient, 0, labels, log_sum_exp, scale).ok());
  ExpectGradient(objective, logits, gradient);
}

TEST_F(ReferenceGradientsTest, OfAProductWithBias) {
  const Tensor a = device_.Random(1, {5, 3});
  const Tensor b = device_.Random(2, {3, 4});
  const Tensor bias = device_.Random(3, {4});
  const Tensor dc = device_.Random(4, {5, 4});
  Matmul product;
  product.a = a;
  product.b = b;
  product.c = device_.New({5, 4});
  product.bias = bias;
  const auto objective = [&] {
    EXPECT_TRUE(on_.matmul().EnqueueMatmul(stream_, product).ok());
    return Dot(product.c, dc);
  };
  const Tensor d_bias = device_.New({4});
  ASSERT_TRUE(on_.matmul().EnqueueColumnSum(stream_, dc, d_bias).ok());
  ExpectGradient(objective, bias, d_bias);
  Matmul of_a;  // da = dc b^T
  of_a.a = dc;
  of_a.b = b;
  of_a.c = device_.New({5, 3});
  of_a.transpose_b = true;
  ASSERT_TRUE(on_.matmul().EnqueueMatmul(stream_, of_a).ok());
  ExpectGradient(objective, a, of_a.c);
  Matmul of_b;  // db = a^T dc
  of_b.a = a;
  of_b.b = dc;
  of_b.c = device_.New({3, 4});
  of_b.transpose_a = true;
  ASSERT_TRUE(on_.matmul().EnqueueMatmul(stream_, of_b).ok());
  ExpectGradient(objective, b, of_b.c);
}

}  // namespace
}  // namespace stagecoach
