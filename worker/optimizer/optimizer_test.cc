#include "worker/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/optimizer/adamw_optimizer.h"

namespace stagecoach {
namespace {

constexpr double kLearningRate = 0.02, kDecay = 0.1, kClipFactor = 0.6, kLossScale = 8;

v1::OptimizerSpec AdamWSpec() {
  v1::OptimizerSpec spec;
  spec.set_name("adamw");
  spec.set_beta1(0.9);
  spec.set_beta2(0.99);
  spec.set_eps(1e-6);
  spec.set_weight_decay(kDecay);
  return spec;
}

v1::OptimizerSpec SgdSpec(double momentum, bool nesterov) {
  v1::OptimizerSpec spec;
  spec.set_name("sgd");
  spec.set_momentum(momentum);
  spec.set_nesterov(nesterov);
  spec.set_weight_decay(kDecay);
  return spec;
}

// One element under an update rule, written from the rule's definition in float64.
struct Oracle {
  v1::OptimizerSpec spec;
  double decay;
  double value;
  double first = 0, second = 0;

  void Update(double accumulator, int num_updates) {
    const double gradient = accumulator * kClipFactor / kLossScale;
    if (spec.name() == "adamw") {
      first = spec.beta1() * first + (1 - spec.beta1()) * gradient;
      second = spec.beta2() * second + (1 - spec.beta2()) * gradient * gradient;
      const double unbiased_first = first / (1 - std::pow(spec.beta1(), num_updates));
      const double unbiased_second = second / (1 - std::pow(spec.beta2(), num_updates));
      value -= kLearningRate * (unbiased_first / (std::sqrt(unbiased_second) + spec.eps()) + decay * value);
      return;
    }
    const double total = gradient + decay * value;
    first = num_updates == 1 ? total : spec.momentum() * first + total;
    value -= kLearningRate * (spec.nesterov() ? total + spec.momentum() * first : first);
  }
};

struct OptimizerCase {
  std::string name;
  v1::OptimizerSpec spec;
  bool weight_decay;

  friend std::ostream& operator<<(std::ostream& out, const OptimizerCase& c) { return out << c.name; }
};

class OptimizerTest : public testing::TestWithParam<OptimizerCase> {
 protected:
  // Largest difference from the oracle after six updates of `num_elements` elements.
  static double LargestDifference(Device& device, const OptimizerCase& c) {
    constexpr int64_t kElements = 37;
    const v1::DType dtype = device.capabilities().compute_dtype;
    const size_t bytes = kElements * BytesOf(dtype);
    const auto memory = *device.Allocate(4 * 64 * 8, MemoryKind::kDevice);
    const auto stream = *device.CreateStream();
    const auto tensor = [&](size_t index) {
      EXPECT_LE(bytes, 64u * 8);
      return Tensor::Of(memory->data() + index * 64 * 8, dtype, {kElements});
    };
    const auto write = [&](const Tensor& t, size_t i, double value) {
      if (dtype == v1::DTYPE_F64) {
        t.as<double>()[i] = value;
      } else {
        t.as<float>()[i] = static_cast<float>(value);
      }
    };
    const auto read = [&](const Tensor& t, size_t i) {
      return dtype == v1::DTYPE_F64 ? t.as<double>()[i] : static_cast<double>(t.as<float>()[i]);
    };
    const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(c.spec);
    const size_t num_moments = optimizer->moment_names().size();
    const std::vector<Tensor> moments = {tensor(2), tensor(3)};
    const OptimizedTensor optimized = {tensor(0), tensor(1), std::span<const Tensor>(moments).first(num_moments),
                                       c.weight_decay};
    std::vector<Oracle> oracles;
    for (size_t i = 0; i < kElements; ++i) {
      write(optimized.value, i, std::cos(static_cast<double>(i)));
      oracles.push_back({c.spec, c.weight_decay ? kDecay : 0, read(optimized.value, i)});
    }
    double largest = 0;
    for (int update = 1; update <= 6; ++update) {
      v1::CommitRecord record;
      record.set_clip_factor(kClipFactor);
      record.set_loss_scale(kLossScale);
      record.set_learning_rate(kLearningRate);
      record.set_num_updates(static_cast<uint64_t>(update));
      for (size_t i = 0; i < kElements; ++i) {
        write(optimized.gradient, i, std::sin(static_cast<double>(i) * update) * kLossScale);
        oracles[i].Update(read(optimized.gradient, i), update);
      }
      EXPECT_EQ(optimizer->EnqueueUpdate(device.operations().update(), *stream, optimized, record), absl::OkStatus());
      for (size_t i = 0; i < kElements; ++i) {
        largest = std::max(largest, std::abs(read(optimized.value, i) - oracles[i].value));
        if (num_moments > 0) largest = std::max(largest, std::abs(read(moments[0], i) - oracles[i].first));
        if (num_moments > 1) largest = std::max(largest, std::abs(read(moments[1], i) - oracles[i].second));
      }
    }
    return largest;
  }
};

TEST_P(OptimizerTest, FollowsItsDefinition) {
  EXPECT_LT(LargestDifference(**ReferenceDevice::Create({}), GetParam()), 1e-14);
  EXPECT_LT(LargestDifference(**CpuDevice::Create({}), GetParam()), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerTest,
                         testing::Values(OptimizerCase{"AdamW", AdamWSpec(), true},
                                         OptimizerCase{"AdamWWithoutDecay", AdamWSpec(), false},
                                         OptimizerCase{"Sgd", SgdSpec(0, false), true},
                                         OptimizerCase{"SgdMomentum", SgdSpec(0.9, false), true},
                                         OptimizerCase{"SgdNesterov", SgdSpec(0.9, true), true},
                                         OptimizerCase{"SgdNesterovWithoutDecay", SgdSpec(0.9, true), false}),
                         [](const auto& rule) { return rule.param.name; });

TEST(OptimizerTest, BiasCorrectionIsThePower) {
  for (const double beta : {0.0, 0.9, 0.95, 0.999}) {
    for (const uint64_t n : {1u, 2u, 3u, 10u, 1000u, 123457u}) {
      EXPECT_NEAR(BiasCorrection(beta, n), 1 - std::pow(beta, static_cast<double>(n)), 1e-13);
    }
    EXPECT_EQ(BiasCorrection(beta, 1), 1 - beta);
  }
}

TEST(OptimizerTest, RefusesWhatIsOutOfRange) {
  v1::OptimizerSpec spec = AdamWSpec();
  spec.set_beta2(1);
  EXPECT_FALSE(Optimizer::Create(spec).ok());
  spec = AdamWSpec();
  spec.set_eps(NAN);
  EXPECT_FALSE(Optimizer::Create(spec).ok());
  EXPECT_FALSE(Optimizer::Create(SgdSpec(-0.1, false)).ok());
  EXPECT_FALSE(Optimizer::Create(v1::OptimizerSpec()).ok());
}

}  // namespace
}  // namespace stagecoach
