#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/layer_dropout.h"
#include "worker/model/layered_stage.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"
#include "worker/model/stage_state.h"

namespace stagecoach {
namespace {

constexpr double kLossWeight = 0.375;
constexpr double kLossScale = 8;

double Noise(uint64_t seed, uint64_t element) {
  return static_cast<double>(MixSeed(seed, element) >> 11) / static_cast<double>(uint64_t{1} << 53) - 0.5;
}

std::vector<double> NoiseVector(uint64_t seed, int64_t size) {
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(Noise(seed, static_cast<uint64_t>(i)));
  return values;
}

// One layer of a small model in float64, with random parameters, input and output gradient; and a scalar that its
// backward is the gradient of: the product of output and output gradient, or the head's loss.
class SingleLayer {
 public:
  SingleLayer(const SmallModel& model, uint32_t layer, int64_t samples)
      : device_(*ReferenceDevice::Create({})),
        graph_(model.Graph()),
        layer_(layer),
        stream_(*device_->CreateStream()),
        state_(*StageState::Create(*device_, **device_->CreateStream(), model.Spec(), graph_, LayerIndex(layer),
                                   LayerIndex(layer))),
        stage_(*LayeredStage::Create(*device_, model.Spec(), graph_, {layer, layer}, *state_)),
        saved_(*device_, stage_->slot_bytes().saved),
        shared_(*device_, stage_->slot_bytes().shared),
        pending_(*device_, stage_->slot_bytes().pending),
        scratch_(*device_, stage_->slot_bytes().scratch) {
    const auto seq = static_cast<int64_t>(model.seq), hidden = static_cast<int64_t>(model.hidden);
    micro_batch_ = {.step = Step(3),
                    .index = MicroBatchIndex(0),
                    .first_sample = 21,
                    .samples = samples,
                    .training = true,
                    .loss_weight = kLossWeight,
                    .loss_scale = kLossScale,
                    .stream = stream_.get()};
    input_values_ = NoiseVector(1, samples * seq * hidden);
    output_gradient_values_ = NoiseVector(2, samples * seq * hidden);
    output_values_ = input_gradient_values_ = std::vector<double>(input_values_.size(), NAN);
    for (int64_t i = 0; i < samples * seq; ++i) {
      tokens_.push_back(static_cast<int32_t>(MixSeed(3, static_cast<uint64_t>(i)) % model.vocab));
      labels_.push_back(i % 4 == 1 ? -1 : static_cast<int32_t>(MixSeed(4, static_cast<uint64_t>(i)) % model.vocab));
    }
    const auto activation = [&](std::vector<double>& values) {
      return Tensor::Of(values.data(), v1::DTYPE_F64, {samples, seq, hidden});
    };
    const bool first = graph_.layers(static_cast<int>(layer)).kind() == v1::LAYER_KIND_TOKEN_EMBEDDING;
    input_ = first ? Tensor::Of(tokens_.data(), v1::DTYPE_I32, {samples, seq}) : activation(input_values_);
    if (!first) input_gradient_ = activation(input_gradient_values_);
    labels_tensor_ = Tensor::Of(labels_.data(), v1::DTYPE_I32, {samples, seq});
    output_ = is_head() ? Tensor::Of(&loss_, v1::DTYPE_F64, {1}) : activation(output_values_);
    if (!is_head()) output_gradient_ = activation(output_gradient_values_);
    uint64_t seed = 100;
    for (const Parameter& parameter : parameters()) {
      WriteValues(parameter.value, NoiseVector(++seed, parameter.value.num_elements()));
    }
  }

  bool is_head() const { return graph_.layers(static_cast<int>(layer_)).kind() == v1::LAYER_KIND_LANGUAGE_MODEL_HEAD; }
  std::span<const Parameter> parameters() const { return state_->parameters(LayerIndex(layer_)); }
  MicroBatch& micro_batch() { return micro_batch_; }
  std::vector<int32_t>& labels() { return labels_; }
  std::vector<double>& input_values() { return input_values_; }
  const std::vector<double>& input_gradient_values() const { return input_gradient_values_; }
  bool has_input_gradient() const { return !input_gradient_.empty(); }

  double Objective() {
    for (GuardedMemory* memory : {&saved_, &shared_, &pending_, &scratch_}) memory->Scribble();
    EXPECT_EQ(stage_->Forward(micro_batch_, input_, labels_tensor_, output_, View()), absl::OkStatus());
    if (is_head()) return loss_ * kLossScale;
    double sum = 0;
    for (size_t i = 0; i < output_values_.size(); ++i) sum += output_values_[i] * output_gradient_values_[i];
    return sum;
  }

  void Backward() {
    scratch_.Scribble();
    EXPECT_EQ(stage_->BackwardInput(micro_batch_, output_gradient_, input_gradient_, View()), absl::OkStatus());
    saved_.Scribble();
    scratch_.Scribble();
    EXPECT_EQ(stage_->BackwardWeight(micro_batch_, labels_tensor_, View()), absl::OkStatus());
    for (const GuardedMemory* memory : {&saved_, &shared_, &pending_, &scratch_}) {
      EXPECT_TRUE(memory->MarginsAreIntact());
    }
  }

  // Compares `analytic` with central differences of the objective in `*value`.
  void ExpectGradient(const std::string& what, double analytic, double* value) {
    constexpr double kStep = 1e-5;
    const double kept = *value;
    *value = kept + kStep;
    const double above = Objective();
    *value = kept - kStep;
    const double below = Objective();
    *value = kept;
    const double numeric = (above - below) / (2 * kStep);
    EXPECT_NEAR(analytic, numeric, 2e-8 * std::max(1.0, std::abs(numeric))) << what;
  }

 private:
  StageMemoryView View() { return {saved_.span(), shared_.span(), pending_.span(), scratch_.span()}; }

  std::unique_ptr<Device> device_;
  const v1::ModelGraph graph_;
  const uint32_t layer_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StageState> state_;
  std::unique_ptr<LayeredStage> stage_;
  GuardedMemory saved_, shared_, pending_, scratch_;
  MicroBatch micro_batch_;
  std::vector<int32_t> tokens_, labels_;
  std::vector<double> input_values_, output_values_, output_gradient_values_, input_gradient_values_;
  double loss_ = NAN;
  Tensor input_, labels_tensor_, output_, output_gradient_, input_gradient_;
};

struct LayerCase {
  const char* name;
  uint32_t layer;
  double dropout;
  int64_t samples;

  friend std::ostream& operator<<(std::ostream& out, const LayerCase& c) { return out << c.name; }
};

class LayerGradientTest : public testing::TestWithParam<LayerCase> {};

TEST_P(LayerGradientTest, EqualsFiniteDifferences) {
  SmallModel model;
  model.dropout = GetParam().dropout;
  SingleLayer layer(model, GetParam().layer, GetParam().samples);
  layer.Objective();
  layer.Backward();
  std::vector<std::vector<double>> gradients;
  for (const Parameter& parameter : layer.parameters()) gradients.push_back(ValuesOf(parameter.gradient));
  const std::vector<double> input_gradient = layer.input_gradient_values();

  for (size_t p = 0; p < gradients.size(); ++p) {
    const Parameter& parameter = layer.parameters()[p];
    for (size_t i = 0; i < gradients[p].size(); ++i) {
      layer.ExpectGradient(absl::StrCat(parameter.spec->name(), "[", i, "]"), gradients[p][i],
                           parameter.value.as<double>() + i);
    }
  }
  if (!layer.has_input_gradient()) return;
  for (size_t i = 0; i < input_gradient.size(); ++i) {
    layer.ExpectGradient(absl::StrCat("input[", i, "]"), input_gradient[i], &layer.input_values()[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerGradientTest,
                         testing::Values(LayerCase{"Embedding", 0, 0, 2}, LayerCase{"EmbeddingDropout", 0, 0.3, 2},
                                         LayerCase{"Block", 1, 0, 2}, LayerCase{"BlockDropout", 1, 0.3, 2},
                                         LayerCase{"BlockRagged", 2, 0.3, 1}, LayerCase{"Norm", 3, 0, 2},
                                         LayerCase{"Head", 4, 0, 2}, LayerCase{"HeadRagged", 4, 0, 1}),
                         [](const auto& layer) { return layer.param.name; });

TEST(LayerGradientTest, AccumulatesOverMicroBatches) {
  for (uint32_t layer = 0; layer < 5; ++layer) {
    SingleLayer single(SmallModel(), layer, 2);
    single.Objective();
    single.Backward();
    std::vector<std::vector<double>> once;
    for (const Parameter& parameter : single.parameters()) once.push_back(ValuesOf(parameter.gradient));
    single.Objective();
    single.Backward();
    for (size_t p = 0; p < once.size(); ++p) {
      const std::vector<double> twice = ValuesOf(single.parameters()[p].gradient);
      for (size_t i = 0; i < twice.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[p][i], 1e-14);
    }
  }
}

TEST(LayerGradientTest, DropoutIsAFunctionOfTheStepAndTheGlobalSample) {
  SmallModel model;
  model.dropout = 0.3;
  for (const uint32_t layer : {0u, 1u}) {
    SingleLayer single(model, layer, 2);
    const double value = single.Objective();
    EXPECT_EQ(single.Objective(), value);
    single.micro_batch().index = MicroBatchIndex(5);
    EXPECT_EQ(single.Objective(), value);
    single.micro_batch().first_sample = 22;
    EXPECT_NE(single.Objective(), value);
    single.micro_batch().first_sample = 21;
    single.micro_batch().step = Step(4);
    EXPECT_NE(single.Objective(), value);
  }
}

TEST(LayerGradientTest, EveryOperationOfEveryLayerAndStepDropsOtherElements) {
  MicroBatch micro_batch;
  std::set<uint64_t> seeds;
  for (uint64_t step = 0; step < 3; ++step) {
    micro_batch.step = Step(step);
    for (uint32_t layer = 0; layer < 3; ++layer) {
      for (uint64_t operation = 0; operation < 3; ++operation) {
        seeds.insert(LayerDropout(1, LayerIndex(layer)).Of(micro_batch, 0.1, operation).seed);
        seeds.insert(LayerDropout(2, LayerIndex(layer)).Of(micro_batch, 0.1, operation).seed);
      }
    }
  }
  EXPECT_EQ(seeds.size(), 2u * 3 * 3 * 3);
}

TEST(LayerGradientTest, AnEvaluationDropsNothing) {
  SmallModel model;
  for (uint32_t layer = 0; layer < 5; ++layer) {
    model.dropout = 0;
    const double undropped = SingleLayer(model, layer, 2).Objective();
    model.dropout = 0.3;
    SingleLayer single(model, layer, 2);
    single.micro_batch().training = false;
    EXPECT_EQ(single.Objective(), undropped);
  }
}

TEST(LayerGradientTest, AHeadWithoutLabelsHasNoLossAndNoGradient) {
  SingleLayer head(SmallModel(), 4, 2);
  for (int32_t& label : head.labels()) label = -1;
  EXPECT_EQ(head.Objective(), 0);
  head.Backward();
  for (const double value : head.input_gradient_values()) EXPECT_EQ(value, 0);
  for (const double value : ValuesOf(head.parameters()[0].gradient)) EXPECT_EQ(value, 0);
}

TEST(LayerGradientTest, ZeroSamplesAreLegalAndLeaveAccumulatorsAlone) {
  SmallModel model;
  model.dropout = 0.3;
  for (uint32_t layer = 0; layer < 5; ++layer) {
    SingleLayer single(model, layer, 0);
    EXPECT_EQ(single.Objective(), 0);
    single.Backward();
    for (const Parameter& parameter : single.parameters()) {
      for (const double value : ValuesOf(parameter.gradient)) EXPECT_EQ(value, 0);
    }
  }
}

}  // namespace
}  // namespace stagecoach
