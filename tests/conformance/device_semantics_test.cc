// What single operations mean, beyond their bounds: what is dropped, masked, accumulated, counted.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "common/philox.h"
#include "formats/tensor_digest.h"
#include "tests/conformance/test_device.h"
#include "worker/device/update_steps.h"

namespace stagecoach {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class DeviceSemanticsTest : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  TestDevice device_{GetParam()};
  TensorOperations& on_ = device_.operations();
  Stream& stream_ = device_.stream();

  Tensor DropOnes(const Dropout& dropout, std::initializer_list<int64_t> dims) {
    const Tensor ones = device_.New(dims);
    EXPECT_TRUE(on_.elementwise().EnqueueFill(stream_, ones, 1).ok());
    EXPECT_TRUE(on_.elementwise().EnqueueDropoutAdd(stream_, ones, dropout, Tensor(), ones).ok());
    return ones;
  }
};

TEST_P(DeviceSemanticsTest, MemoryIsZeroedAndAligned) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{1000}}) {
    const absl::StatusOr<std::unique_ptr<Memory>> memory = device_.device().Allocate(bytes, MemoryKind::kDevice);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ((*memory)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->data()) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ((*memory)->data()[i], std::byte{0});
  }
}

TEST_P(DeviceSemanticsTest, MemoryThatDoesNotExistIsResourceExhausted) {
  for (const size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    EXPECT_EQ(device_.device().Allocate(bytes, MemoryKind::kDevice).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

TEST_P(DeviceSemanticsTest, WorkBeforeAnEventIsCompleteAfterWaitingForIt) {
  const Tensor from = device_.Random(1, {5, 7});
  const Tensor to = device_.New({5, 7});
  ASSERT_TRUE(device_.device().EnqueueCopy(stream_, to.data, from.data, from.bytes()).ok());
  const absl::StatusOr<EventRef> event = device_.device().Record(stream_);
  ASSERT_TRUE(event.ok());
  ASSERT_TRUE(device_.device().EnqueueWait(stream_, *event).ok());
  ASSERT_TRUE(device_.device().WaitComplete(*event, absl::Seconds(10)).ok());
  EXPECT_TRUE(*(*event)->IsComplete());
  EXPECT_EQ(BytesIn(to), BytesIn(from));
}

TEST_P(DeviceSemanticsTest, CancelledStreamRefusesCopiesAndEvents) {
  const Tensor t = device_.New({4});
  stream_.Cancel();
  EXPECT_EQ(device_.device().EnqueueCopy(stream_, t.data, t.data, 0).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(device_.device().Record(stream_).status().code(), absl::StatusCode::kAborted);
}

TEST_P(DeviceSemanticsTest, AccumulatedProductsAddUpExactly) {
  // Small integers: every sum is exact, so c + a b is known to the bit.
  const Tensor a = device_.From({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = device_.From({1, -1, 2, 0, 1, 3}, {3, 2});
  const Tensor c = device_.From({10, 20, 30, 40}, {2, 2});
  Matmul matmul;
  matmul.a = a;
  matmul.b = b;
  matmul.c = c;
  ASSERT_TRUE(on_.matmul().EnqueueMatmul(stream_, matmul).ok());
  EXPECT_EQ(ValuesOf(c), (std::vector<double>{8, 8, 20, 14}));
  matmul.accumulate = true;
  ASSERT_TRUE(on_.matmul().EnqueueMatmul(stream_, matmul).ok());
  EXPECT_EQ(ValuesOf(c), (std::vector<double>{16, 16, 40, 28}));
  const Tensor sum = device_.From({1, 1}, {2});
  ASSERT_TRUE(on_.matmul().EnqueueColumnSum(stream_, c, sum).ok());
  EXPECT_EQ(ValuesOf(sum), (std::vector<double>{57, 45}));
}

TEST_P(DeviceSemanticsTest, DropoutIsThePublishedFunctionOfSampleAndElement) {
  const Dropout dropout = {.probability = 0.3, .seed = 42, .first_sample = (uint64_t{1} << 40) + 5};
  const std::vector<double> dropped = ValuesOf(DropOnes(dropout, {3, 5, 101}));
  for (uint64_t sample = 0; sample < 3; ++sample) {
    const PhiloxKey key = PhiloxKeyFrom(MixSeed(42, dropout.first_sample + sample));
    for (uint32_t element = 0; element < 505; ++element) {
      const uint32_t word = Philox({element / 4, 0, 0, 0}, key)[element % 4];
      const bool kept = word >= static_cast<uint32_t>(0.3 * 0x1p32);
      ASSERT_EQ(dropped[sample * 505 + element] != 0, kept) << "sample " << sample << " element " << element;
    }
  }
}

TEST_P(DeviceSemanticsTest, DropoutOfASampleDoesNotDependOnItsPlaceInTheMicroBatch) {
  const Tensor together = DropOnes({.probability = 0.5, .seed = 7, .first_sample = 20}, {4, 3, 37});
  for (int64_t sample = 0; sample < 4; ++sample) {
    const Tensor alone =
        DropOnes({.probability = 0.5, .seed = 7, .first_sample = 20 + static_cast<uint64_t>(sample)}, {1, 3, 37});
    EXPECT_EQ(BytesIn(alone), BytesIn(together.Slice(sample, 1))) << "sample " << sample;
  }
}

TEST_P(DeviceSemanticsTest, AttentionDropoutOfASampleDoesNotDependOnItsPlaceInTheMicroBatch) {
  const int64_t seq = 37;
  const Tensor qkv = device_.Random(1, {3, seq, 24});
  const auto forward = [&](const Tensor& of, int64_t samples, uint64_t first_sample) {
    const Tensor output = device_.New({samples, seq, 8});
    const Attention attention = {.shape = {samples, seq, 2, 4},
                                 .qkv = of,
                                 .output = output,
                                 .log_sum_exp = device_.New({samples, 2, seq}),
                                 .dropout = {0.5, 3, first_sample}};
    EXPECT_TRUE(on_.attention().EnqueueForward(stream_, attention).ok());
    return output;
  };
  const Tensor together = forward(qkv, 3, 10);
  for (int64_t sample = 0; sample < 3; ++sample) {
    const Tensor alone = forward(qkv.Slice(sample, 1), 1, 10 + static_cast<uint64_t>(sample));
    EXPECT_EQ(BytesIn(alone), BytesIn(together.Slice(sample, 1))) << "sample " << sample;
  }
}

TEST_P(DeviceSemanticsTest, DropoutKeepsItsShareAndTheMean) {
  for (const double probability : {0.1, 0.5, 0.9}) {
    const std::vector<double> values = ValuesOf(DropOnes({probability, 11, 0}, {8, 64, 128}));
    double kept = 0;
    double sum = 0;
    for (const double value : values) {
      kept += value != 0 ? 1 : 0;
      sum += value;
    }
    const double count = static_cast<double>(values.size());
    const double deviation = std::sqrt(probability * (1 - probability) / count);
    EXPECT_NEAR(kept / count, 1 - probability, 5 * deviation);
    EXPECT_NEAR(sum / count, 1, 5 * deviation / (1 - probability) + 1e-6);
  }
}

TEST_P(DeviceSemanticsTest, DropoutOfCertaintyIsInvalid) {
  const Tensor t = device_.New({1, 2, 3});
  for (const double probability : {1.0, -0.1, kNan}) {
    EXPECT_EQ(on_.elementwise().EnqueueDropoutAdd(stream_, t, {probability, 0, 0}, Tensor(), t).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(DeviceSemanticsTest, ElementwiseOperationsWorkInPlace) {
  const auto dims = {int64_t{2}, int64_t{3}, int64_t{45}};
  const Tensor a = device_.Random(1, dims);
  const Tensor b = device_.Random(2, dims);
  const Tensor apart = device_.New(dims);
  const Dropout dropout = {0.25, 1, 2};
  ASSERT_TRUE(on_.elementwise().EnqueueDropoutAdd(stream_, a, dropout, b, apart).ok());
  const Tensor in_place_of_x = device_.Random(1, dims);
  ASSERT_TRUE(on_.elementwise().EnqueueDropoutAdd(stream_, in_place_of_x, dropout, b, in_place_of_x).ok());
  EXPECT_EQ(BytesIn(in_place_of_x), BytesIn(apart));
  const Tensor in_place_of_residual = device_.Random(2, dims);
  ASSERT_TRUE(
      on_.elementwise().EnqueueDropoutAdd(stream_, a, dropout, in_place_of_residual, in_place_of_residual).ok());
  EXPECT_EQ(BytesIn(in_place_of_residual), BytesIn(apart));
  ASSERT_TRUE(on_.elementwise().EnqueueGeluGradient(stream_, a, b, apart).ok());
  ASSERT_TRUE(on_.elementwise().EnqueueGeluGradient(stream_, a, b, b).ok());
  EXPECT_EQ(BytesIn(b), BytesIn(apart));
}

// As stages do it with the tensors of skip connections, which start anywhere in a buffer.
TEST_P(DeviceSemanticsTest, ASumMayBeMadeInPlaceOfEitherOperand) {
  const Tensor a = device_.Random(1, {2, 3, 45});
  Tensor b = device_.Random(2, {2, 3, 46});
  b.data = b.as<std::byte>() + BytesOf(b.dtype);
  b.dims[2] = 45;
  std::vector<double> expected = ValuesOf(a);  // multiples of 2^-23 below 1, so that the sums are exact
  const std::vector<double> added = ValuesOf(b);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
  const Tensor apart = device_.New({2, 3, 45});
  ASSERT_TRUE(on_.elementwise().EnqueueAdd(stream_, a, b, apart).ok());
  EXPECT_EQ(ValuesOf(apart), expected);
  const Tensor in_place = device_.Random(1, {2, 3, 45});
  ASSERT_TRUE(on_.elementwise().EnqueueAdd(stream_, in_place, b, in_place).ok());
  EXPECT_EQ(BytesIn(in_place), BytesIn(apart));
  ASSERT_TRUE(on_.elementwise().EnqueueAdd(stream_, a, b, b).ok());
  EXPECT_EQ(BytesIn(b), BytesIn(apart));
}

TEST_P(DeviceSemanticsTest, GeluKeepsItsLimitsAndNan) {
  const Tensor x = device_.From({0, 40, -40, 1e20, 1, -1, kNan}, {7});
  const Tensor y = device_.New({7});
  ASSERT_TRUE(on_.elementwise().EnqueueGelu(stream_, x, y).ok());
  const std::vector<double> values = ValuesOf(y);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 40);
  EXPECT_NEAR(values[2], 0, 1e-20);
  EXPECT_NEAR(values[3], 1e20, 1e13);
  EXPECT_NEAR(values[4], 0.841191990608276, 1e-6);  // GPT-2's, from PyTorch's gelu(approximate="tanh")
  EXPECT_NEAR(values[5], -0.158808009391724, 1e-6);
  EXPECT_TRUE(std::isnan(values[6]));
  const Tensor ones = device_.From({1, 1, 1, 1, 1, 1, 1}, {7});
  ASSERT_TRUE(on_.elementwise().EnqueueGeluGradient(stream_, x, ones, y).ok());
  const std::vector<double> slopes = ValuesOf(y);
  EXPECT_NEAR(slopes[0], 0.5, 1e-7);
  EXPECT_NEAR(slopes[1], 1, 1e-7);
  EXPECT_NEAR(slopes[2], 0, 1e-7);
  EXPECT_TRUE(std::isnan(slopes[6]));
}

TEST_P(DeviceSemanticsTest, NormalNoiseHasItsMomentsAndEveryElementItsOwnValue) {
  const int64_t count = 100001;
  const Tensor noise = device_.New({count});
  ASSERT_TRUE(on_.elementwise().EnqueueNormal(stream_, noise, 0.02, 1234).ok());
  double sum = 0;
  double squares = 0;
  for (const double value : ValuesOf(noise)) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), 0.02, 0.02 * 5 / std::sqrt(2.0 * count));
  const Tensor shorter = device_.New({33});
  ASSERT_TRUE(on_.elementwise().EnqueueNormal(stream_, shorter, 0.02, 1234).ok());
  EXPECT_EQ(BytesIn(shorter), BytesIn(noise.Slice(0, 33)));
}

TEST_P(DeviceSemanticsTest, TokensOutsideTheTableAreInvalidAndNothingIsWritten) {
  for (const int32_t bad : {-1, 5}) {
    const Tensor tokens = device_.FromIntegers({0, 1, 4, bad}, {2, 2});
    const Tensor table = device_.Random(1, {5, 3});
    const Tensor positions = device_.Random(2, {2, 3});
    const Tensor y = device_.Random(3, {2, 2, 3});
    const std::vector<char> y_before = BytesIn(y);
    const std::vector<char> table_before = BytesIn(table);
    EXPECT_EQ(on_.vocabulary().EnqueueEmbedding(stream_, tokens, table, positions, y).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(on_.vocabulary().EnqueueEmbeddingGradient(stream_, tokens, y, table, positions).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(BytesIn(y), y_before);
    EXPECT_EQ(BytesIn(table), table_before);
  }
}

TEST_P(DeviceSemanticsTest, SequenceLongerThanThePositionsIsInvalid) {
  const Tensor tokens = device_.FromIntegers({0, 1, 0}, {1, 3});
  EXPECT_EQ(on_.vocabulary()
                .EnqueueEmbedding(stream_, tokens, device_.New({2, 4}), device_.New({2, 4}), device_.New({1, 3, 4}))
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceSemanticsTest, LabelOutsideTheVocabularyIsInvalidAndNothingIsWritten) {
  const Tensor logits = device_.Random(1, {2, 7});
  const Tensor labels = device_.FromIntegers({6, 7}, {2});
  const Tensor log_sum_exp = device_.Random(2, {2});
  const Tensor loss = device_.New(v1::DTYPE_F64, {2});
  const std::vector<char> before = BytesIn(log_sum_exp);
  EXPECT_EQ(on_.vocabulary().EnqueueCrossEntropy(stream_, logits, labels, log_sum_exp, loss).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BytesIn(log_sum_exp), before);
}

TEST_P(DeviceSemanticsTest, MaskedLabelsHaveNoLossAndNoGradient) {
  const Tensor logits = device_.Random(1, {3, 33});
  const Tensor labels = device_.FromIntegers({3, -1, -100}, {3});
  const Tensor log_sum_exp = device_.Random(2, {3});
  const Tensor loss = device_.New(v1::DTYPE_F64, {3});
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropy(stream_, logits, labels, log_sum_exp, loss).ok());
  EXPECT_GT(ValuesOf(loss)[0], 0);
  EXPECT_EQ(ValuesOf(loss)[1], 0);
  EXPECT_EQ(ValuesOf(log_sum_exp)[2], 0);
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropyGradient(stream_, logits, 0, labels, log_sum_exp, 1).ok());
  for (const double value : ValuesOf(logits.Slice(1, 2))) EXPECT_EQ(value, 0);
}

TEST_P(DeviceSemanticsTest, CrossEntropyStandsLargeLogitsAndPassesNanOn) {
  const Tensor logits = device_.From({1e4, 1e4, 0, -1e4, -1e4, -1e4, kNan, 0, 0}, {3, 3});
  const Tensor labels = device_.FromIntegers({0, 1, 1}, {3});
  const Tensor log_sum_exp = device_.New({3});
  const Tensor loss = device_.New(v1::DTYPE_F64, {3});
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropy(stream_, logits, labels, log_sum_exp, loss).ok());
  EXPECT_NEAR(ValuesOf(loss)[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(ValuesOf(loss)[1], std::log(3.0), 1e-6);
  EXPECT_TRUE(std::isnan(ValuesOf(loss)[2]));
}

// With log_sum_exp 0 and the label elsewhere, the gradient is e^x.
TEST_P(DeviceSemanticsTest, ExponentialsAreWithinFourUnitsOfTheLastPlace) {
  const int64_t count = 20001;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(static_cast<float>(-87.3 * static_cast<double>(i) / count)));
  const Tensor logits = device_.From(values, {1, count});
  const Tensor labels = device_.FromIntegers({0}, {1});
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropyGradient(stream_, logits, 1, labels, device_.New({1}), 1).ok());
  const std::vector<double> exponentials = ValuesOf(logits);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(exponentials[i] / std::exp(values[i]), 1, 0x1p-22) << "of " << values[i];
  }
}

TEST_P(DeviceSemanticsTest, GradientOfATileIsTheTileOfTheGradient) {
  const int64_t vocab = 45;
  const std::vector<double> values = RandomValues(4 * vocab, 1);
  const Tensor whole = device_.From(values, {4, vocab});
  const Tensor labels = device_.FromIntegers({0, 16, 44, 17}, {4});
  const Tensor log_sum_exp = device_.New({4});
  const Tensor loss = device_.New(v1::DTYPE_F64, {4});
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropy(stream_, whole, labels, log_sum_exp, loss).ok());
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropyGradient(stream_, whole, 0, labels, log_sum_exp, 0.125).ok());
  const std::vector<double> gradient = ValuesOf(whole);
  const int64_t first = 11;
  const int64_t columns = 23;
  const Tensor tile = device_.New({4, columns});
  for (int64_t i = 0; i < 4 * columns; ++i) {
    const double value = values[static_cast<size_t>(i / columns * vocab + first + i % columns)];
    if (device_.is_reference()) {
      tile.as<double>()[i] = value;
    } else {
      tile.as<float>()[i] = static_cast<float>(value);
    }
  }
  ASSERT_TRUE(on_.vocabulary().EnqueueCrossEntropyGradient(stream_, tile, first, labels, log_sum_exp, 0.125).ok());
  const std::vector<double> tile_gradient = ValuesOf(tile);
  for (int64_t i = 0; i < 4 * columns; ++i) {
    ASSERT_EQ(tile_gradient[static_cast<size_t>(i)],
              gradient[static_cast<size_t>(i / columns * vocab + first + i % columns)]);
  }
}

TEST_P(DeviceSemanticsTest, SquaredNormCountsWhatIsNotFinite) {
  std::vector<double> values = RandomValues(10000, 1);
  values[3] = kNan;
  values[5000] = kInfinity;
  values[9999] = -kInfinity;
  const Tensor norm = device_.New(v1::DTYPE_F64, {1});
  const Tensor count = device_.New(v1::DTYPE_I64, {1});
  ASSERT_TRUE(on_.update().EnqueueSquaredNorm(stream_, device_.From(values, {100, 100}), norm, count).ok());
  EXPECT_EQ(*count.as<int64_t>(), 3);
  EXPECT_FALSE(std::isfinite(*norm.as<double>()));
}

TEST_P(DeviceSemanticsTest, SquaredNormOfLargeNumbersIsFinite) {
  const Tensor norm = device_.New(v1::DTYPE_F64, {1});
  const Tensor count = device_.New(v1::DTYPE_I64, {1});
  const Tensor large = device_.From({3e38, 3e38}, {2});
  ASSERT_TRUE(on_.update().EnqueueSquaredNorm(stream_, large, norm, count).ok());
  EXPECT_EQ(*count.as<int64_t>(), 0);
  EXPECT_NEAR(*norm.as<double>(), 1.8e77, 1e72);
}

TEST_P(DeviceSemanticsTest, DigestIsTheOneOfTheBytes) {
  for (const int64_t size : {0, 1, 3, 4, 7, 8, 31, 65, 16384, 40001}) {
    const Tensor bytes = device_.New(v1::DTYPE_U8, {size});
    for (int64_t i = 0; i < size; ++i) bytes.as<uint8_t>()[i] = static_cast<uint8_t>(i * 37 + 11);
    const Tensor digest = device_.New(v1::DTYPE_U64, {2});
    ASSERT_TRUE(on_.update().EnqueueDigest(stream_, bytes, digest).ok());
    const TensorDigest expected =
        DigestBytes(std::span(static_cast<const std::byte*>(bytes.data), static_cast<size_t>(size)));
    EXPECT_EQ(digest.as<uint64_t>()[0], expected.words[0]) << size;
    EXPECT_EQ(digest.as<uint64_t>()[1], expected.words[1]) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSemanticsTest, testing::ValuesIn(DevicesUnderTest()),
                         [](const auto& parameter) { return parameter.param.name; });

// The updates of f32 devices, one element at a time as update_steps.h says: a vector unit must give these bits.
class UpdateStepsTest : public testing::Test {
 protected:
  static constexpr int64_t kCount = 5003;

  TestDevice device_{CpuUnderTest(1)};
  Tensor parameter_ = device_.Random(1, {kCount});
  Tensor gradient_ = device_.Random(2, {kCount});
};

TEST_F(UpdateStepsTest, AdamWRepeatsThemBitForBit) {
  const AdamW update = {1e-3, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.001, 0.37};
  const Tensor exp_avg = device_.New({kCount});
  const Tensor exp_avg_sq = device_.New({kCount});
  std::vector<float> p(parameter_.as<float>(), parameter_.as<float>() + kCount);
  std::vector<float> m(kCount), v(kCount);
  const AdamWSteps steps = StepsOf(update);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(device_.operations()
                    .update()
                    .EnqueueAdamW(device_.stream(), parameter_, gradient_, exp_avg, exp_avg_sq, update)
                    .ok());
    for (size_t i = 0; i < kCount; ++i) {
      const float g = steps.gradient_factor * gradient_.as<float>()[i];
      m[i] = std::fma(steps.beta1, m[i], steps.one_minus_beta1 * g);
      v[i] = std::fma(steps.beta2, v[i], steps.one_minus_beta2 * (g * g));
      const float divisor = std::fma(std::sqrt(v[i]), steps.inverse_root_correction2, steps.epsilon);
      p[i] = std::fma(steps.minus_step_size, m[i] / divisor, steps.decay * p[i]);
    }
  }
  EXPECT_EQ(std::memcmp(p.data(), parameter_.data, parameter_.bytes()), 0);
  EXPECT_EQ(std::memcmp(m.data(), exp_avg.data, exp_avg.bytes()), 0);
  EXPECT_EQ(std::memcmp(v.data(), exp_avg_sq.data, exp_avg_sq.bytes()), 0);
}

TEST_F(UpdateStepsTest, SgdRepeatsThemBitForBit) {
  const Tensor momentum = device_.Random(3, {kCount});
  std::vector<float> p(parameter_.as<float>(), parameter_.as<float>() + kCount);
  std::vector<float> m(kCount);
  for (int step = 0; step < 3; ++step) {
    const Sgd update = {0.1, 0.9, 0.01, true, step == 0, 0.37};
    const SgdSteps steps = StepsOf(update);
    ASSERT_TRUE(
        device_.operations().update().EnqueueSgd(device_.stream(), parameter_, gradient_, momentum, update).ok());
    for (size_t i = 0; i < kCount; ++i) {
      const float g = std::fma(steps.weight_decay, p[i], steps.gradient_factor * gradient_.as<float>()[i]);
      m[i] = steps.first_update ? g : std::fma(steps.momentum, m[i], g);
      p[i] = std::fma(steps.minus_learning_rate, std::fma(steps.momentum, m[i], g), p[i]);
    }
  }
  EXPECT_EQ(std::memcmp(p.data(), parameter_.data, parameter_.bytes()), 0);
  EXPECT_EQ(std::memcmp(m.data(), momentum.data, momentum.bytes()), 0);
}

TEST(DeviceThreadsTest, SquaredNormOfManyBlocksIsTheSameOnTwoThreads) {
  const int64_t count = 1024 * 4096 + 4096 + 77;  // more blocks than partial sums are kept at a time
  double norms[2];
  for (const int threads : {1, 2}) {
    TestDevice device(CpuUnderTest(threads));
    const Tensor t = device.New({count});
    for (int64_t i = 0; i < count; ++i) t.as<float>()[i] = static_cast<float>(i % 1000) * 0.001f;
    const Tensor norm = device.New(v1::DTYPE_F64, {1});
    const Tensor non_finite = device.New(v1::DTYPE_I64, {1});
    ASSERT_TRUE(device.operations().update().EnqueueSquaredNorm(device.stream(), t, norm, non_finite).ok());
    norms[threads - 1] = *norm.as<double>();
  }
  EXPECT_EQ(norms[0], norms[1]);
  double expected = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(static_cast<float>(i % 1000) * 0.001f);
    expected += x * x;
  }
  EXPECT_NEAR(norms[0], expected, 1e-9 * expected);
}

}  // namespace
}  // namespace stagecoach
