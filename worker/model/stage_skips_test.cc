// The slots that a stage with skip connections needs, and what it does with others.

#include "worker/model/stage_skips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_layout.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/layered_stage.h"
#include "worker/model/slot_requirements.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kElementBytes = 8;

// Embedding, blocks 1 to 4, norm and head; a stage of layers 2 to 4 has connections in (0 and 1), within (2) and out
// (3).
class StageSkipsTest : public testing::Test {
 protected:
  StageSkipsTest() {
    model_.blocks = 4;
    model_.skips = {{0, 2}, {1, 3}, {2, 4}, {3, 6}};
    graph_ = model_.Graph();
  }

  std::unique_ptr<LayeredStage> Make(uint32_t first, uint32_t last) {
    state_ = *StageState::Create(*device_, *stream_, model_.Spec(), graph_, LayerIndex(first), LayerIndex(last));
    auto stage = LayeredStage::Create(*device_, model_.Spec(), graph_, {first, last}, *state_);
    EXPECT_TRUE(stage.ok()) << stage.status();
    return *std::move(stage);
  }
  uint64_t TensorBytes() const { return model_.micro_batch_size * model_.seq * model_.hidden * kElementBytes; }

  SmallModel model_;
  v1::ModelGraph graph_;
  const std::unique_ptr<Device> device_ = *ReferenceDevice::Create({});
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
  std::unique_ptr<StageState> state_;
};

// F and I of the middle stage, with slots that tests change.
class MiddleStageTest : public StageSkipsTest {
 protected:
  MiddleStageTest() : stage_(Make(2, 4)) {
    const StageSlotBytes& bytes = stage_->slot_bytes();
    for (const uint64_t size : {bytes.saved, bytes.shared, bytes.pending, bytes.scratch}) {
      slots_.push_back(std::make_unique<GuardedMemory>(*device_, size));
    }
    in_data_.resize(2 * TensorBytes());
    out_data_.resize(TensorBytes());
  }

  StageMemoryView View(std::vector<SkipTensors> read, std::vector<SkipTensors> written) {
    read_ = std::move(read);
    written_ = std::move(written);
    return {slots_[0]->span(), slots_[1]->span(), slots_[2]->span(), slots_[3]->span(), {}, read_, written_};
  }
  Tensor Activation(std::vector<double>& values) const {
    values.resize(TensorBytes() / kElementBytes, 0.25);
    return Tensor::Of(values.data(), v1::DTYPE_F64,
                      {micro_batch_.samples, static_cast<int64_t>(model_.seq), static_cast<int64_t>(model_.hidden)});
  }
  SkipTensors In() { return {in_, in_data_}; }
  SkipTensors Out() { return {out_, out_data_}; }
  absl::Status Forward(const StageMemoryView& memory) {
    return stage_->Forward(micro_batch_, Activation(input_), {}, Activation(output_), memory);
  }
  // The edges the other way round.
  absl::Status BackwardInput(const StageMemoryView& memory) {
    return stage_->BackwardInput(micro_batch_, Activation(output_), Activation(input_), memory);
  }

  const std::unique_ptr<LayeredStage> stage_;
  std::vector<std::unique_ptr<GuardedMemory>> slots_;
  std::vector<uint32_t> in_ = {0, 1}, out_ = {3};
  std::vector<std::byte> in_data_, out_data_;
  std::vector<SkipTensors> read_, written_;
  std::vector<double> input_, output_;
  MicroBatch micro_batch_{
      .step = Step(1), .index = MicroBatchIndex(0), .samples = 2, .loss_weight = 1, .stream = stream_.get()};
};

TEST_F(StageSkipsTest, ATensorOfAConnectionWithinAStageLiesBehindTheScratch) {
  v1::ModelGraph without = graph_;
  without.clear_skip_connections();
  for (uint32_t first = 0; first < model_.num_layers(); ++first) {
    for (uint32_t last = first; last < model_.num_layers(); ++last) {
      uint64_t num_within = 0;
      for (const auto& [from, to] : model_.skips) num_within += first <= from && to <= last ? 1 : 0;
      const uint64_t scratch = MemoryOfStage(without, {first, last}, kElementBytes)->scratch;
      EXPECT_EQ(Make(first, last)->slot_bytes().scratch, scratch + num_within * AlignUp(TensorBytes()));
      EXPECT_EQ(SlotRequirements::Of(*device_, graph_, {first, last})->bytes().scratch,
                scratch + num_within * AlignUp(TensorBytes()));
    }
  }
}

TEST_F(StageSkipsTest, AWrongConnectionIsRefused) {
  const auto refusal = [&](uint32_t from, uint32_t to) {
    graph_.mutable_skip_connections(1)->set_from_layer(from);
    graph_.mutable_skip_connections(1)->set_to_layer(to);
    const auto state = *StageState::Create(*device_, *stream_, model_.Spec(), graph_, LayerIndex(2), LayerIndex(4));
    return LayeredStage::Create(*device_, model_.Spec(), graph_, {2, 4}, *state).status().ToString();
  };
  EXPECT_THAT(refusal(1, 9), HasSubstr("INVALID_ARGUMENT: a skip connection from layer 1 to layer 9"));
  EXPECT_THAT(refusal(900, 3), HasSubstr("INVALID_ARGUMENT: a skip connection from layer 900"));
  EXPECT_THAT(refusal(1, 2), HasSubstr("no layer between them"));
  EXPECT_THAT(refusal(1, 4), HasSubstr("two skip connections end at transformer.h.3"));
}

TEST_F(StageSkipsTest, AConnectionBetweenActivationsOfTwoSizesIsRefused) {
  (*graph_.mutable_layers(0)->mutable_sizes())["hidden_size"] = 2 * model_.hidden;
  const auto skips = StageSkips::Of(*device_, graph_, {2, 4});
  EXPECT_THAT(
      skips.status().ToString(),
      HasSubstr("INVALID_ARGUMENT: the skip connection from layer 0 to layer 2 adds 960 bytes to an input of 480"));
}

TEST_F(MiddleStageTest, RunsWithTheSlotsThatItNeeds) {
  EXPECT_EQ(Forward(View({In()}, {Out()})), absl::OkStatus());
  EXPECT_EQ(BackwardInput(View({Out()}, {In()})), absl::OkStatus());
  for (const auto& slot : slots_) EXPECT_TRUE(slot->MarginsAreIntact());
  // From two stages, so over two edges, in any order.
  const std::span<std::byte> both(in_data_);
  const std::vector<uint32_t> first = {0}, second = {1};
  const std::vector<SkipTensors> apart = {{second, both.subspan(TensorBytes())}, {first, both.first(TensorBytes())}};
  EXPECT_EQ(Forward(View(apart, {Out()})), absl::OkStatus());
  EXPECT_EQ(BackwardInput(View({Out()}, apart)), absl::OkStatus());
}

TEST_F(MiddleStageTest, NamesTheTensorThatIsMissing) {
  for (const bool is_forward : {true, false}) {
    const auto call = [&](std::vector<SkipTensors> below, std::vector<SkipTensors> above) {
      const absl::Status status = is_forward ? Forward(View(std::move(below), std::move(above)))
                                             : BackwardInput(View(std::move(above), std::move(below)));
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      return std::string(status.message());
    };
    EXPECT_THAT(call({}, {Out()}), HasSubstr("no slot has the tensor of the skip connection from layer 0 to layer 2"));
    EXPECT_THAT(call({In()}, {}), HasSubstr("no slot has the tensor of the skip connection from layer 3 to layer 6"));
    EXPECT_THAT(call({{in_, {}}}, {Out()}), HasSubstr("no slot has the tensor of"));
    const std::vector<uint32_t> one = {0}, twice = {0, 0}, others = {0, 1, 7};
    EXPECT_THAT(call({{one, std::span(in_data_).first(TensorBytes())}}, {Out()}),
                HasSubstr("no slot has the tensor of the skip connection from layer 1 to layer 3"));
    EXPECT_THAT(call({{twice, in_data_}}, {Out()}), HasSubstr("from layer 1 to layer 3"));
    in_data_.resize(3 * TensorBytes());
    EXPECT_THAT(call({{others, in_data_}}, {Out()}), HasSubstr("tensors of 3 skip connections, of which 2"));
    in_data_.resize(2 * TensorBytes());
  }
}

TEST_F(MiddleStageTest, NamesASlotOfAnotherSize) {
  for (const size_t bytes : {2 * TensorBytes() - 8, TensorBytes(), 2 * TensorBytes() + 64}) {
    std::vector<std::byte> data(bytes);
    const std::string expected = absl::StrCat("has ", bytes, " bytes, its 2 tensors of ", TensorBytes());
    EXPECT_THAT(Forward(View({{in_, data}}, {Out()})).ToString(), HasSubstr(expected));
    EXPECT_THAT(BackwardInput(View({Out()}, {{in_, data}})).ToString(), HasSubstr(expected));
  }
}

TEST_F(MiddleStageTest, AnEmptyMicroBatchNeedsNoTensor) {
  micro_batch_.samples = 0;
  EXPECT_EQ(Forward(View({}, {})), absl::OkStatus());
  EXPECT_EQ(BackwardInput(View({}, {})), absl::OkStatus());
}

TEST_F(MiddleStageTest, WhatOnlyAFrozenLayerWantsIsNotAskedFor) {
  for (const int layer : {0, 1}) graph_.mutable_layers(layer)->set_frozen(true);
  const auto stage = Make(2, 4);
  const StageSlotBytes& bytes = stage->slot_bytes();
  GuardedMemory saved(*device_, bytes.saved), shared(*device_, bytes.shared), pending(*device_, bytes.pending),
      scratch(*device_, bytes.scratch);
  const std::vector<SkipTensors> below = {In()}, above = {Out()};
  const StageMemoryView forward = {saved.span(), shared.span(), pending.span(), scratch.span(), {}, below, above};
  EXPECT_EQ(stage->Forward(micro_batch_, Activation(input_), {}, Activation(output_), forward), absl::OkStatus());
  const StageMemoryView backward = {saved.span(), shared.span(), pending.span(), scratch.span(), {}, above, {}};
  EXPECT_EQ(stage->BackwardInput(micro_batch_, Activation(output_), {}, backward), absl::OkStatus());
  EXPECT_TRUE(scratch.MarginsAreIntact());
  StageMemoryView both = backward;
  both.skips_written = below;
  EXPECT_THAT(stage->BackwardInput(micro_batch_, Activation(output_), {}, both).ToString(),
              HasSubstr("tensors of 2 skip connections, of which 0"));
}

}  // namespace
}  // namespace stagecoach
