// What frozen layers leave of a stage's work: every gradient that is still made has the bits that it has when nothing
// is frozen, wherever the model is cut, and nothing of a frozen layer changes.

#include "common/frozen_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
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

using Layers = std::vector<uint32_t>;

// Embedding, blocks 1 to 3, norm, head.
SmallModel Model(bool tied, double dropout) {
  SmallModel model;
  model.blocks = 3;
  model.tied = tied;
  model.dropout = dropout;
  return model;
}

std::vector<Layers> FrozenSets(bool tied) {
  if (tied) return {{1}, {1, 2, 3, 4}, {0, 5}, {0, 1, 5}, {0, 2, 4, 5}, {0, 1, 2, 3, 5}, {2, 3}};
  return {{0},          {0, 1},       {2},       {4, 5},          {3, 4, 5},    {0, 1, 2, 3, 4},
          {0, 1, 2, 3}, {0, 1, 2, 5}, {0, 2, 4}, {1, 2, 3, 4, 5}, {0, 1, 3, 5}, {0, 1, 2, 3, 5}};
}

class FrozenStageTest : public testing::TestWithParam<std::string> {
 protected:
  // Micro-batches of 2, 0, 1 and 2 samples.
  static void Run(StageBench& bench) {
    uint64_t first_sample = 40;
    uint32_t index = 0;
    for (const int64_t samples : {2, 0, 1, 2}) {
      bench.Add(bench.MakeBatch(index++, first_sample, samples));
      first_sample += static_cast<uint64_t>(samples);
    }
    bench.RunStep();
    bench.ExpectMarginsIntact();
  }

  const std::unique_ptr<Device> device_ = GetParam() == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
};

using Digests = std::map<std::string, std::string>;

// Those of a model of which nothing is frozen, without the frozen layers' tensors.
Digests Expected(Digests whole, const v1::ModelGraph& graph) {
  for (const v1::LayerSpec& layer : graph.layers()) {
    if (!layer.frozen()) continue;
    for (const v1::ParameterSpec& parameter : layer.parameters()) whole.erase(parameter.name());
  }
  return whole;
}

TEST_P(FrozenStageTest, GradientsOfTheTrainedLayersHaveTheBitsOfAModelThatTrainsAll) {
  for (const auto& [tied, dropout] : {std::pair(false, 0.0), {false, 0.2}, {true, 0.2}}) {
    SmallModel model = Model(tied, dropout);
    StageBench whole(*device_, model.Spec(), model.Graph(), {0});
    Run(whole);
    for (const Layers& frozen : FrozenSets(tied)) {
      model.frozen = frozen;
      for (const Layers& cut : std::vector<Layers>{{0}, {0, 1, 2, 3, 4, 5}, {0, 2}, {0, 3}, {0, 2, 4}}) {
        for (const Layers& wanted : std::vector<Layers>{{}, {1, 2, 3}}) {
          Layers recomputed;
          for (const uint32_t layer : wanted) {
            if (RoleOf(model.Graph(), layer) != LayerRole::kForwardOnly) recomputed.push_back(layer);
          }
          SCOPED_TRACE(testing::Message() << (tied ? "tied " : "") << "dropout " << dropout << " frozen "
                                          << testing::PrintToString(frozen) << " cut " << testing::PrintToString(cut)
                                          << " recomputed " << testing::PrintToString(recomputed));
          StageBench bench(*device_, model.Spec(), model.Graph(), cut, recomputed);
          Run(bench);
          for (size_t batch = 0; batch < 4; ++batch) EXPECT_EQ(bench.loss_part(batch), whole.loss_part(batch));
          EXPECT_EQ(bench.GradientDigests(), Expected(whole.GradientDigests(), model.Graph()));
        }
      }
    }
  }
}

v1::CommitRecord Record(uint64_t step) {
  v1::CommitRecord record;
  record.set_step(step);
  record.set_verdict(v1::VERDICT_APPLY);
  record.set_clip_factor(1);
  record.set_learning_rate(0.01);
  record.set_num_updates(step);
  record.set_loss_scale(1);
  return record;
}

TEST_P(FrozenStageTest, AnUpdateLeavesFrozenTensorsAsTheyWere) {
  SmallModel model = Model(/*tied=*/false, 0);
  model.frozen = {0, 2, 5};
  StageBench bench(*device_, model.Spec(), model.Graph(), {0, 2});
  const Digests before = bench.StateDigests();
  Run(bench);
  for (size_t stage = 0; stage < 2; ++stage) {
    ASSERT_TRUE(bench.state(stage).Update(bench.stream(), Record(1)).ok());
  }
  const v1::ModelGraph graph = model.Graph();
  const Digests after = bench.StateDigests();
  for (const v1::LayerSpec& layer : graph.layers()) {
    for (const v1::ParameterSpec& parameter : layer.parameters()) {
      EXPECT_EQ(after.at(parameter.name()) == before.at(parameter.name()), layer.frozen()) << parameter.name();
      EXPECT_EQ(after.contains(parameter.name() + ".exp_avg"), !layer.frozen()) << parameter.name();
    }
  }
}

TEST_P(FrozenStageTest, AFrozenStateIsItsValuesAlone) {
  SmallModel model = Model(/*tied=*/true, 0);
  model.frozen = {0, 1, 5};
  const std::unique_ptr<Stream> stream = *device_->CreateStream();
  const auto state = *StageState::Create(*device_, *stream, model.Spec(), model.Graph(), LayerIndex(0), LayerIndex(1));
  EXPECT_GT(state->bytes().parameters, 0u);
  EXPECT_EQ(state->bytes().gradients, 0u);
  EXPECT_EQ(state->bytes().optimizer, 0u);
  EXPECT_TRUE(state->tied_gradient().empty());
  EXPECT_TRUE(state->EnqueueZeroGradients(*stream).ok());
  const auto report = state->ReportGradients(*stream);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->norms.empty());
  EXPECT_EQ(report->num_non_finite, 0u);
  ASSERT_TRUE(state->Update(*stream, Record(1)).ok());
  EXPECT_EQ(state->applied_step(), Step(1));
  EXPECT_EQ(state->num_updates(), 1u);
  for (const StateTensor& tensor : state->tensors()) EXPECT_FALSE(tensor.optimizer_state) << tensor.name;
  for (const Parameter& parameter : state->parameters(LayerIndex(1))) EXPECT_TRUE(parameter.gradient.empty());
}

TEST_P(FrozenStageTest, ATiedTensorOfWhichOneUseIsFrozenIsRefused) {
  SmallModel model = Model(/*tied=*/true, 0);
  model.frozen = {5};
  const std::unique_ptr<Stream> stream = *device_->CreateStream();
  const auto state = StageState::Create(*device_, *stream, model.Spec(), model.Graph(), LayerIndex(0), LayerIndex(5));
  EXPECT_EQ(state.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(state.status().ToString(), HasSubstr("one of them is frozen: freeze both or neither"));
}

TEST_P(FrozenStageTest, AStateOfOtherFrozenLayersIsRefused) {
  SmallModel model = Model(/*tied=*/false, 0);
  model.frozen = {1};
  const std::unique_ptr<Stream> stream = *device_->CreateStream();
  const auto state = *StageState::Create(*device_, *stream, model.Spec(), model.Graph(), LayerIndex(0), LayerIndex(1));
  model.frozen = {};
  const auto stage = LayeredStage::Create(*device_, model.Spec(), model.Graph(), {0, 1, {}}, *state);
  EXPECT_THAT(stage.status().ToString(), HasSubstr("layer transformer.h.0 is trained, and its parameters have no"));
}

TEST_P(FrozenStageTest, AnEvaluationIsThatOfAModelThatTrainsAll) {
  SmallModel model = Model(/*tied=*/false, 0.3);
  std::vector<double> losses;
  for (const Layers& frozen : std::vector<Layers>{{}, {0, 1, 2}, {2, 3}, {0, 1, 2, 3, 4}, {4, 5}}) {
    model.frozen = frozen;
    StageBench bench(*device_, model.Spec(), model.Graph(), {0, 2});
    BenchBatch batch = bench.MakeBatch(0, 5, 2);
    batch.micro_batch.training = false;
    bench.Add(std::move(batch));
    bench.Forward(0);
    bench.ExpectMarginsIntact();
    losses.push_back(bench.loss());
  }
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Devices, FrozenStageTest, testing::Values("reference", "cpu"),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace stagecoach
