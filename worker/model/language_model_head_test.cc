#include "worker/model/language_model_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/layer_memory.h"
#include "common/philox.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/layered_stage.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"
#include "worker/model/stage_state.h"

namespace stagecoach {
namespace {

// Loss and gradients of a head, as plain loops over rows.
struct PlainHead {
  double loss = 0;
  std::vector<double> input_gradient, weight_gradient;
};

PlainHead ComputePlainHead(const std::vector<double>& input, const std::vector<double>& weight,
                           const std::vector<int32_t>& labels, size_t hidden) {
  const size_t vocab = weight.size() / hidden;
  PlainHead result;
  result.input_gradient.resize(input.size());
  result.weight_gradient.resize(weight.size());
  double num_tokens = 0;
  for (const int32_t label : labels) num_tokens += label >= 0 ? 1 : 0;
  std::vector<double> logits(vocab);
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    double sum = 0;
    for (size_t word = 0; word < vocab; ++word) {
      logits[word] = 0;
      for (size_t i = 0; i < hidden; ++i) logits[word] += input[row * hidden + i] * weight[word * hidden + i];
      sum += std::exp(logits[word]);
    }
    const auto label = static_cast<size_t>(labels[row]);
    result.loss += (std::log(sum) - logits[label]) / num_tokens;
    for (size_t word = 0; word < vocab; ++word) {
      const double d_logit = (std::exp(logits[word]) / sum - (word == label ? 1 : 0)) / num_tokens;
      for (size_t i = 0; i < hidden; ++i) {
        result.input_gradient[row * hidden + i] += d_logit * weight[word * hidden + i];
        result.weight_gradient[word * hidden + i] += d_logit * input[row * hidden + i];
      }
    }
  }
  return result;
}

TEST(LanguageModelHeadTest, TilesAddUpToTheWholeVocabulary) {
  SmallModel model;
  model.blocks = 0;
  model.hidden = 2;
  model.vocab = (1 << 18) + 5;
  model.seq = 66;
  model.micro_batch_size = 1;
  const auto vocab = static_cast<int64_t>(model.vocab), seq = static_cast<int64_t>(model.seq);
  ASSERT_LT(HeadForwardRows(seq, vocab), seq);
  ASSERT_LT(HeadWeightColumns(seq, vocab), vocab);

  const std::unique_ptr<Device> device = *ReferenceDevice::Create({});
  const std::unique_ptr<Stream> stream = *device->CreateStream();
  const v1::ModelGraph graph = model.Graph();
  const LayerIndex layer(2);
  const auto state = *StageState::Create(*device, **device->CreateStream(), model.Spec(), graph, layer, layer);
  const auto stage = *LayeredStage::Create(*device, model.Spec(), graph, {layer.value(), layer.value()}, *state);
  std::vector<double> input;
  std::vector<int32_t> labels;
  for (uint64_t i = 0; i < model.seq; ++i) {
    for (uint64_t j : {2 * i, 2 * i + 1}) input.push_back(static_cast<double>(MixSeed(1, j) % 1000) / 500 - 1);
    labels.push_back(i % 7 == 2 ? -1 : static_cast<int32_t>(MixSeed(2, i) % model.vocab));
  }
  labels.back() = static_cast<int32_t>(vocab) - 1;
  std::vector<double> input_gradient(input.size());
  double loss = 0;
  const StageSlotBytes& bytes = stage->slot_bytes();
  GuardedMemory saved(*device, bytes.saved), shared(*device, bytes.shared), pending(*device, bytes.pending),
      scratch(*device, bytes.scratch);
  const StageMemoryView memory = {saved.span(), shared.span(), pending.span(), scratch.span()};
  const MicroBatch micro_batch = {.step = Step(1),
                                  .index = MicroBatchIndex(0),
                                  .first_sample = 0,
                                  .samples = 1,
                                  .training = true,
                                  .loss_weight = 1,
                                  .loss_scale = 1,
                                  .stream = stream.get()};
  const Tensor labels_tensor = Tensor::Of(labels.data(), v1::DTYPE_I32, {1, seq});
  ASSERT_TRUE(stage
                  ->Forward(micro_batch, Tensor::Of(input.data(), v1::DTYPE_F64, {1, seq, 2}), labels_tensor,
                            Tensor::Of(&loss, v1::DTYPE_F64, {1}), memory)
                  .ok());
  ASSERT_TRUE(
      stage->BackwardInput(micro_batch, {}, Tensor::Of(input_gradient.data(), v1::DTYPE_F64, {1, seq, 2}), memory)
          .ok());
  ASSERT_TRUE(stage->BackwardWeight(micro_batch, labels_tensor, memory).ok());

  const Parameter& weight = state->parameters(layer)[0];
  const PlainHead plain = ComputePlainHead(input, ValuesOf(weight.value), labels, model.hidden);
  EXPECT_NEAR(loss, plain.loss, 1e-12);
  for (size_t i = 0; i < input.size(); ++i) EXPECT_NEAR(input_gradient[i], plain.input_gradient[i], 1e-14);
  const std::vector<double> weight_gradient = ValuesOf(weight.gradient);
  double largest = 0;
  for (size_t i = 0; i < weight_gradient.size(); ++i) {
    largest = std::max(largest, std::abs(weight_gradient[i] - plain.weight_gradient[i]));
  }
  EXPECT_LT(largest, 1e-14);
  for (const GuardedMemory* region : {&saved, &shared, &pending, &scratch}) EXPECT_TRUE(region->MarginsAreIntact());
}

}  // namespace
}  // namespace stagecoach
