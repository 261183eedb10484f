// A model with skip connections: its gradients are those of its loss, and wherever it is cut, whatever is frozen or
// recomputed, every loss and gradient has the same bits.

#include "common/skip_connections.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/frozen_layers.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using Layers = std::vector<uint32_t>;
using Skips = std::vector<std::pair<uint32_t, uint32_t>>;
using Digests = std::map<std::string, std::string>;

// Of embedding, blocks 1 to 4, norm 5 and head 6. Past all layers and overlapping, so that layers behind a start are
// ends and layers before an end are starts; nested within each other, and reaching the norm and the head.
std::vector<Skips> SkipSets() {
  return {{{0, 6}, {1, 3}, {2, 4}, {3, 5}}, {{0, 2}, {1, 5}, {2, 4}, {3, 6}}, {{1, 6}, {2, 5}}};
}

SmallModel Model(const Skips& skips, double dropout) {
  SmallModel model;
  model.blocks = 4;
  model.hidden = 4;
  model.tied = false;
  model.dropout = dropout;
  model.skips = skips;
  return model;
}

// Every cut into one to four stages.
std::vector<Layers> AllCuts(uint32_t num_layers) {
  std::vector<Layers> cuts;
  for (uint32_t chosen = 0; chosen < 1u << (num_layers - 1); ++chosen) {
    Layers cut = {0};
    for (uint32_t layer = 1; layer < num_layers; ++layer) {
      if ((chosen >> (layer - 1) & 1) != 0) cut.push_back(layer);
    }
    if (cut.size() <= 4) cuts.push_back(std::move(cut));
  }
  return cuts;
}

// Those that a stage may recompute.
Layers RecomputableBlocks(const v1::ModelGraph& graph, const Layers& wanted) {
  Layers blocks;
  for (const uint32_t layer : wanted) {
    if (RoleOf(graph, layer) != LayerRole::kForwardOnly) blocks.push_back(layer);
  }
  return blocks;
}

// Of a model that trains all: what is left when the graph's frozen layers are.
Digests Without(Digests whole, const v1::ModelGraph& graph) {
  for (const v1::LayerSpec& layer : graph.layers()) {
    if (!layer.frozen()) continue;
    for (const v1::ParameterSpec& parameter : layer.parameters()) whole.erase(parameter.name());
  }
  return whole;
}

// Micro-batches of 2, 0, 1 and 2 samples.
void RunBatches(StageBench& bench) {
  uint64_t first_sample = 40;
  uint32_t index = 0;
  for (const int64_t samples : {2, 0, 1, 2}) {
    bench.Add(bench.MakeBatch(index++, first_sample, samples));
    first_sample += static_cast<uint64_t>(samples);
  }
  bench.RunStep();
  bench.ExpectMarginsIntact();
}

class SkipStageTest : public testing::TestWithParam<std::string> {
 protected:
  void ExpectSameBits(const SmallModel& model, const Layers& cut, const Layers& recomputed, StageBench& whole) {
    SCOPED_TRACE(testing::Message() << "skips " << testing::PrintToString(model.skips) << " frozen "
                                    << testing::PrintToString(model.frozen) << " cut " << testing::PrintToString(cut)
                                    << " recomputed " << testing::PrintToString(recomputed));
    StageBench bench(*device_, model.Spec(), model.Graph(), cut, RecomputableBlocks(model.Graph(), recomputed));
    RunBatches(bench);
    for (size_t batch = 0; batch < 4; ++batch) EXPECT_EQ(bench.loss_part(batch), whole.loss_part(batch));
    EXPECT_EQ(bench.GradientDigests(), Without(whole.GradientDigests(), model.Graph()));
  }

  const std::unique_ptr<Device> device_ = GetParam() == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
};

TEST_P(SkipStageTest, AnyCutGivesTheSameBits) {
  for (const Skips& skips : SkipSets()) {
    const SmallModel model = Model(skips, 0.1);
    StageBench whole(*device_, model.Spec(), model.Graph(), {0});
    RunBatches(whole);
    for (const Layers& cut : AllCuts(model.num_layers())) ExpectSameBits(model, cut, {}, whole);
    ExpectSameBits(model, {0, 1, 2, 3, 4, 5, 6}, {}, whole);
  }
}

TEST_P(SkipStageTest, RecomputedLayersGiveTheSameBits) {
  for (const Skips& skips : SkipSets()) {
    const SmallModel model = Model(skips, 0.1);
    StageBench whole(*device_, model.Spec(), model.Graph(), {0});
    RunBatches(whole);
    for (const Layers& cut : std::vector<Layers>{{0}, {0, 2}, {0, 3, 4}, {0, 1, 2, 3, 4, 5, 6}}) {
      for (const Layers& recomputed : std::vector<Layers>{{1}, {2, 3}, {1, 2, 3, 4}}) {
        ExpectSameBits(model, cut, recomputed, whole);
      }
    }
  }
}

TEST_P(SkipStageTest, FrozenLayersLeaveTheBitsOfTheOthers) {
  for (const Skips& skips : SkipSets()) {
    SmallModel model = Model(skips, 0.1);
    StageBench whole(*device_, model.Spec(), model.Graph(), {0});
    RunBatches(whole);
    for (const Layers& frozen : std::vector<Layers>{
             {0}, {0, 1}, {0, 1, 2}, {2, 3}, {1, 2, 3, 4, 5, 6}, {0, 2, 4, 6}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5}}) {
      model.frozen = frozen;
      for (const Layers& cut : std::vector<Layers>{
               {0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 2, 4}, {0, 1, 3, 5}, {0, 1, 2, 3, 4, 5, 6}}) {
        for (const Layers& recomputed : std::vector<Layers>{{}, {1, 2, 3, 4}}) {
          ExpectSameBits(model, cut, recomputed, whole);
        }
      }
    }
  }
}

TEST_P(SkipStageTest, ATiedModelGivesTheSameBits) {
  SmallModel model = Model(SkipSets()[0], 0.1);
  model.tied = true;
  StageBench whole(*device_, model.Spec(), model.Graph(), {0});
  RunBatches(whole);
  for (const Layers& cut : std::vector<Layers>{{0, 3}, {0, 2, 4}, {0, 1, 3, 6}}) ExpectSameBits(model, cut, {}, whole);
}

TEST_P(SkipStageTest, AnEvaluationIsCutAnywhereToo) {
  const SmallModel model = Model(SkipSets()[1], 0.3);
  std::vector<double> losses;
  for (const Layers& cut : std::vector<Layers>{{0}, {0, 2}, {0, 1, 3, 5}}) {
    StageBench bench(*device_, model.Spec(), model.Graph(), cut);
    BenchBatch batch = bench.MakeBatch(0, 5, 2);
    batch.micro_batch.training = false;
    bench.Add(std::move(batch));
    bench.Forward(0);
    bench.ExpectMarginsIntact();
    losses.push_back(bench.loss());
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  // And with the connections it is another.
  const SmallModel without = Model({}, 0.3);
  StageBench bench(*device_, without.Spec(), without.Graph(), {0});
  BenchBatch batch = bench.MakeBatch(0, 5, 2);
  batch.micro_batch.training = false;
  bench.Add(std::move(batch));
  bench.Forward(0);
  EXPECT_NE(bench.loss(), losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Devices, SkipStageTest, testing::Values("reference", "cpu"),
                         [](const auto& device) { return device.param; });

TEST(SkipGradientTest, EqualsFiniteDifferencesOfTheLoss) {
  const std::unique_ptr<Device> device = *ReferenceDevice::Create({});
  for (const auto& [skips, cut] : {std::pair(SkipSets()[0], Layers{0}), {SkipSets()[1], Layers{0, 2, 4}}}) {
    SmallModel model = Model(skips, 0.2);
    model.std = 0.2;
    StageBench bench(*device, model.Spec(), model.Graph(), cut);
    for (uint32_t i = 0; i < 2; ++i) bench.Add(bench.MakeBatch(i, 7 + 2 * i, 2 - i));
    bench.RunStep();
    const auto loss = [&] {
      bench.Forward(0);
      bench.Forward(1);
      return bench.loss();
    };
    const auto gradients = bench.Gradients();
    for (size_t stage = 0; stage < bench.num_stages(); ++stage) {
      for (const StateTensor& tensor : bench.state(stage).tensors()) {
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
}

TEST(SkipGradientTest, TheCpuIsNearTheReference) {
  const SmallModel model = Model(SkipSets()[0], 0.1);
  std::map<std::string, std::vector<double>> gradients[2];
  double losses[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::unique_ptr<Device> device = i == 0 ? *ReferenceDevice::Create({}) : *CpuDevice::Create({});
    StageBench bench(*device, model.Spec(), model.Graph(), {0, 2, 4});
    RunBatches(bench);
    gradients[i] = bench.Gradients();
    losses[i] = bench.loss();
  }
  EXPECT_NEAR(losses[0], losses[1], 5e-6);
  for (const auto& [name, reference] : gradients[0]) {
    for (size_t i = 0; i < reference.size(); ++i) EXPECT_NEAR(gradients[1][name][i], reference[i], 1e-5) << name;
  }
}

}  // namespace
}  // namespace stagecoach
