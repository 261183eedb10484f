#include "worker/model/layered_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Device> MakeDevice(const std::string& kind) {
  return kind == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
}

class LayeredStageTest : public testing::TestWithParam<std::string> {
 protected:
  // Micro-batches of 2, 0, 1 and 2 samples.
  void AddBatches(StageBench& bench) {
    uint64_t first_sample = 40;
    uint32_t index = 0;
    for (const int64_t samples : {2, 0, 1, 2}) {
      bench.Add(bench.MakeBatch(index++, first_sample, samples));
      first_sample += static_cast<uint64_t>(samples);
    }
  }

  const std::unique_ptr<Device> device_ = MakeDevice(GetParam());
};

TEST_P(LayeredStageTest, AnyCutGivesTheSameBits) {
  for (const bool tied : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      SmallModel model;
      model.tied = tied;
      model.dropout = dropout;
      StageBench whole(*device_, model.Spec(), model.Graph(), {0});
      AddBatches(whole);
      whole.RunStep();
      std::vector<std::vector<uint32_t>> cuts = {{0, 1, 2, 3, 4}};
      for (uint32_t layer = 1; layer < model.num_layers(); ++layer) cuts.push_back({0, layer});
      for (const std::vector<uint32_t>& cut : cuts) {
        SCOPED_TRACE(testing::PrintToString(cut));
        StageBench bench(*device_, model.Spec(), model.Graph(), cut);
        AddBatches(bench);
        bench.RunStep();
        for (size_t batch = 0; batch < 4; ++batch) EXPECT_EQ(bench.loss_part(batch), whole.loss_part(batch));
        EXPECT_EQ(bench.GradientDigests(), whole.GradientDigests());
        bench.ExpectMarginsIntact();
      }
    }
  }
}

TEST_P(LayeredStageTest, RecomputedLayersGiveTheSameBits) {
  SmallModel model;
  model.blocks = 3;
  for (const double dropout : {0.0, 0.1}) {
    model.dropout = dropout;
    StageBench kept(*device_, model.Spec(), model.Graph(), {0});
    AddBatches(kept);
    kept.RunStep();
    for (const std::vector<uint32_t>& cut : std::vector<std::vector<uint32_t>>{{0}, {0, 2}, {0, 1, 3}}) {
      for (const std::vector<uint32_t>& recomputed :
           std::vector<std::vector<uint32_t>>{{1}, {2}, {3}, {1, 3}, {2, 3}, {1, 2, 3}}) {
        SCOPED_TRACE(testing::PrintToString(cut) + testing::PrintToString(recomputed));
        StageBench bench(*device_, model.Spec(), model.Graph(), cut, recomputed);
        AddBatches(bench);
        bench.RunStep();
        for (size_t batch = 0; batch < 4; ++batch) EXPECT_EQ(bench.loss_part(batch), kept.loss_part(batch));
        EXPECT_EQ(bench.GradientDigests(), kept.GradientDigests());
        bench.ExpectMarginsIntact();
      }
    }
  }
}

TEST_P(LayeredStageTest, BlocksAloneAreRecomputed) {
  const SmallModel model;
  const std::unique_ptr<Stream> stream = *device_->CreateStream();
  const auto state = *StageState::Create(*device_, *stream, model.Spec(), model.Graph(), LayerIndex(0), LayerIndex(3));
  for (const std::vector<uint32_t>& layers : std::vector<std::vector<uint32_t>>{{0}, {3}, {4}, {2, 1}, {1, 1}}) {
    const auto stage = LayeredStage::Create(*device_, model.Spec(), model.Graph(), {0, 3, layers}, *state);
    EXPECT_EQ(stage.status().code(), absl::StatusCode::kInvalidArgument) << testing::PrintToString(layers);
    EXPECT_THAT(stage.status().message(), HasSubstr("it recomputes blocks of its own, in order"));
  }
}

TEST_P(LayeredStageTest, InputGradientsDoNotDependOnTheStagesBehind) {
  SmallModel model;
  model.dropout = 0.1;
  StageBench two(*device_, model.Spec(), model.Graph(), {0, 2});
  StageBench four(*device_, model.Spec(), model.Graph(), {0, 2, 3, 4});
  for (StageBench* bench : {&two, &four}) {
    bench->Add(bench->MakeBatch(0, 40, 2));
    bench->RunStep();
  }
  EXPECT_EQ(ValuesOf(two.activation_gradient(0, 1)), ValuesOf(four.activation_gradient(0, 1)));
}

TEST_P(LayeredStageTest, AnyOrderOfActionsGivesTheSameBits) {
  using Order = std::function<void(StageBench&)>;
  const std::vector<Order> orders = {
      // 1F1B of the first stage, GPipe, and input gradients ahead of weight gradients.
      [](StageBench& b) {
        b.Forward(0), b.Forward(1), b.BackwardInput(0), b.BackwardWeight(0), b.Forward(2), b.BackwardInput(1);
        b.BackwardWeight(1), b.Forward(3), b.BackwardInput(2), b.BackwardWeight(2), b.BackwardInput(3);
        b.BackwardWeight(3);
      },
      [](StageBench& b) {
        for (size_t i = 0; i < 4; ++i) b.Forward(i);
        for (size_t i = 0; i < 4; ++i) b.BackwardInput(i), b.BackwardWeight(i);
      },
      [](StageBench& b) {
        for (size_t i = 4; i-- > 0;) b.Forward(i);
        for (size_t i = 4; i-- > 0;) b.BackwardInput(i);
        for (size_t i = 0; i < 4; ++i) b.BackwardWeight(i);
      }};
  SmallModel model;
  model.dropout = 0.1;
  StageBench in_turn(*device_, model.Spec(), model.Graph(), {0, 2});
  AddBatches(in_turn);
  in_turn.RunStep();
  for (const Order& order : orders) {
    StageBench bench(*device_, model.Spec(), model.Graph(), {0, 2});
    AddBatches(bench);
    order(bench);
    bench.ReduceTies();
    EXPECT_EQ(bench.GradientDigests(), in_turn.GradientDigests());
    EXPECT_EQ(bench.loss(), in_turn.loss());
    bench.ExpectMarginsIntact();
  }
}

TEST_P(LayeredStageTest, GradientsOfMicroBatchesAddUp) {
  SmallModel model;
  model.dropout = 0.1;
  StageBench together(*device_, model.Spec(), model.Graph(), {0, 3});
  together.Add(together.MakeBatch(0, 7, 2));
  together.Add(together.MakeBatch(1, 9, 1));
  together.RunStep();
  std::map<std::string, std::vector<double>> sums;
  for (const auto& [first_sample, samples] : {std::pair<uint64_t, int64_t>(7, 2), {9, 1}}) {
    StageBench alone(*device_, model.Spec(), model.Graph(), {0, 3});
    alone.Add(alone.MakeBatch(0, first_sample, samples));
    alone.RunStep();
    for (const auto& [name, gradient] : alone.Gradients()) {
      sums[name].resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) sums[name][i] += gradient[i];
    }
  }
  const double tolerance = GetParam() == "cpu" ? 1e-6 : 1e-15;
  for (const auto& [name, gradient] : together.Gradients()) {
    for (size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], sums[name][i], tolerance) << name;
  }
}

TEST_P(LayeredStageTest, AnEvaluationDependsOnNeitherDropoutNorStep) {
  SmallModel model;
  std::vector<double> losses;
  for (const double dropout : {0.0, 0.3}) {
    model.dropout = dropout;
    StageBench bench(*device_, model.Spec(), model.Graph(), {0, 2});
    BenchBatch batch = bench.MakeBatch(0, 5, 2);
    batch.micro_batch.training = false;
    batch.micro_batch.step = Step(losses.size());
    bench.Add(std::move(batch));
    bench.Forward(0);
    bench.ExpectMarginsIntact();
    losses.push_back(bench.loss());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_GT(losses[0], 0);
}

TEST_P(LayeredStageTest, LossScaleScalesGradientsAndNotTheLoss) {
  const SmallModel model;
  std::vector<std::map<std::string, std::vector<double>>> gradients;
  std::vector<double> losses;
  for (const double loss_scale : {1.0, 1024.0}) {
    StageBench bench(*device_, model.Spec(), model.Graph(), {0});
    BenchBatch batch = bench.MakeBatch(0, 5, 2);
    batch.micro_batch.loss_scale = loss_scale;
    bench.Add(std::move(batch));
    bench.RunStep();
    gradients.push_back(bench.Gradients());
    losses.push_back(bench.loss());
  }
  EXPECT_EQ(losses[0], losses[1]);
  // A power of two: exact.
  for (const auto& [name, gradient] : gradients[0]) {
    for (size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i] * 1024, gradients[1][name][i]) << name;
  }
}

TEST_P(LayeredStageTest, NamesATensorThatIsMissing) {
  const SmallModel model;
  StageBench bench(*device_, model.Spec(), model.Graph(), {0, 2});
  const StageSlotBytes& bytes = bench.stage(1).slot_bytes();
  GuardedMemory saved(*device_, bytes.saved), shared(*device_, bytes.shared), scratch(*device_, bytes.scratch);
  const StageMemoryView memory = {saved.span(), shared.span(), {}, scratch.span()};
  double loss = 0;
  EXPECT_THAT(bench.stage(1)
                  .Forward(bench.MakeBatch(0, 0, 2).micro_batch, {}, {}, Tensor::Of(&loss, v1::DTYPE_F64, {1}), memory)
                  .ToString(),
              HasSubstr("INVALID_ARGUMENT: the stage's input is missing"));
}

INSTANTIATE_TEST_SUITE_P(Devices, LayeredStageTest, testing::Values("reference", "cpu"),
                         [](const auto& device) { return device.param; });

TEST(LayeredStageGradientTest, EqualsFiniteDifferencesOfTheLoss) {
  const std::unique_ptr<Device> device = MakeDevice("reference");
  for (const bool tied : {false, true}) {
    SmallModel model;
    model.blocks = 1;
    model.tied = tied;
    model.dropout = 0.2;
    StageBench bench(*device, model.Spec(), model.Graph(), {0});
    for (uint32_t i = 0; i < 2; ++i) bench.Add(bench.MakeBatch(i, 7 + 2 * i, 2 - i));
    bench.RunStep();
    const auto loss = [&] {
      bench.Forward(0);
      bench.Forward(1);
      return bench.loss();
    };
    const auto gradients = bench.Gradients();
    for (const StateTensor& tensor : bench.state(0).tensors()) {
      if (tensor.optimizer_state) continue;
      const std::vector<double>& gradient = gradients.at(tensor.name);
      for (size_t i = 0; i < gradient.size(); ++i) {
        double& value = tensor.tensor.as<double>()[i];
        const double kept = value;
        value = kept + 1e-5;
        const double above = loss();
        value = kept - 1e-5;
        const double below = loss();
        value = kept;
        EXPECT_NEAR(gradient[i], (above - below) / 2e-5, 1e-8) << tensor.name << "[" << i << "]";
      }
    }
  }
}

TEST(LayeredStageGradientTest, TheCpuIsNearTheReference) {
  SmallModel model;
  model.dropout = 0.1;
  std::map<std::string, std::vector<double>> gradients[2];
  double losses[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::unique_ptr<Device> device = MakeDevice(i == 0 ? "reference" : "cpu");
    StageBench bench(*device, model.Spec(), model.Graph(), {0, 2});
    bench.Add(bench.MakeBatch(0, 7, 2));
    bench.RunStep();
    gradients[i] = bench.Gradients();
    losses[i] = bench.loss();
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
  for (const auto& [name, reference] : gradients[0]) {
    for (size_t i = 0; i < reference.size(); ++i) EXPECT_NEAR(gradients[1][name][i], reference[i], 2e-6) << name;
  }
}

}  // namespace
}  // namespace stagecoach
