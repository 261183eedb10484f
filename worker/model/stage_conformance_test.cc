// What every Stage promises to the executor, whatever its calls do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/layer_memory.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/layered_stage.h"
#include "worker/model/simulated_stage.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

// Time that has passed as soon as somebody waits for it.
class HastyTimer final : public StageTimer {
 public:
  absl::Duration Now() const override { return now_; }
  void SleepUntil(absl::Duration time) override { now_ = time; }

 private:
  absl::Duration now_;
};

struct Implementation {
  std::string name;
  std::string device;
};

class StageConformanceTest : public testing::TestWithParam<Implementation> {
 protected:
  // Of layers [first, last], with a state of its own.
  void Make(uint32_t first, uint32_t last, const std::vector<uint32_t>& recomputed = {}) {
    const StageExtent extent{first, last, recomputed};
    state_ = *StageState::Create(*device_, *stream_, model_.Spec(), graph_, LayerIndex(first), LayerIndex(last));
    if (GetParam().name == "simulated") {
      stage_ = *SimulatedStage::Create({.forward = 1, .backward_input = 1, .backward_weight = 1},
                                       std::make_unique<HastyTimer>(), *device_, graph_, extent);
    } else {
      stage_ = *LayeredStage::Create(*device_, model_.Spec(), graph_, extent, *state_);
    }
  }
  // The second block, norm and head, and slots as they need them.
  void MakeLast(const std::vector<uint32_t>& recomputed = {}) {
    Make(2, model_.num_layers() - 1, recomputed);
    const StageSlotBytes& bytes = stage_->slot_bytes();
    for (const uint64_t size : {bytes.saved, bytes.shared, bytes.pending, bytes.scratch, bytes.recomputed}) {
      slots_.push_back(std::make_unique<GuardedMemory>(*device_, size));
    }
    memory_ = {slots_[0]->span(), slots_[1]->span(), slots_[2]->span(), slots_[3]->span(), slots_[4]->span()};
  }

  absl::Status Forward(const StageMemoryView& memory) {
    return stage_->Forward(micro_batch_, Activation(input_), Labels(), Tensor::Of(&loss_, v1::DTYPE_F64, {1}), memory);
  }
  absl::Status Recompute(const StageMemoryView& memory) { return stage_->Recompute(micro_batch_, memory); }
  absl::Status BackwardInput(const StageMemoryView& memory) {
    return stage_->BackwardInput(micro_batch_, {}, Activation(input_gradient_), memory);
  }
  absl::Status BackwardWeight(const StageMemoryView& memory) {
    return stage_->BackwardWeight(micro_batch_, Labels(), memory);
  }
  Tensor Activation(std::vector<double>& values) {
    return Tensor::Of(values.data(), device_->capabilities().compute_dtype,
                      {micro_batch_.samples, static_cast<int64_t>(model_.seq), static_cast<int64_t>(model_.hidden)});
  }
  Tensor Labels() {
    return Tensor::Of(labels_.data(), v1::DTYPE_I32, {micro_batch_.samples, static_cast<int64_t>(model_.seq)});
  }

  const SmallModel model_{};
  v1::ModelGraph graph_ = model_.Graph();
  const std::unique_ptr<Device> device_ =
      GetParam().device == "cpu" ? *CpuDevice::Create({}) : *ReferenceDevice::Create({});
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
  MicroBatch micro_batch_{
      .step = Step(1), .index = MicroBatchIndex(0), .samples = 2, .loss_weight = 1, .stream = stream_.get()};
  std::vector<double> input_ = std::vector<double>(100, 0.0);  // more than any of the tensors needs
  std::vector<double> input_gradient_ = input_;
  std::vector<int32_t> labels_ = std::vector<int32_t>(100, 1);
  double loss_ = NAN;
  std::unique_ptr<StageState> state_;
  std::unique_ptr<Stage> stage_;
  std::vector<std::unique_ptr<GuardedMemory>> slots_;
  StageMemoryView memory_;
};

TEST_P(StageConformanceTest, SlotsAreAsCommonLayerMemorySays) {
  const uint64_t element = BytesOf(device_->capabilities().compute_dtype);
  for (uint32_t first = 0; first < model_.num_layers(); ++first) {
    for (uint32_t last = first; last < model_.num_layers(); ++last) {
      for (const bool recomputes : {false, true}) {
        std::vector<uint32_t> recomputed;
        for (uint32_t block = 1; block <= model_.blocks; ++block) {
          if (recomputes && first <= block && block <= last) recomputed.push_back(block);
        }
        Make(first, last, recomputed);
        const StageMemoryBytes bytes = *MemoryOfStage(graph_, {first, last, recomputed}, element);
        EXPECT_EQ(stage_->slot_bytes().saved, bytes.saved);
        EXPECT_EQ(stage_->slot_bytes().shared, bytes.shared);
        EXPECT_EQ(stage_->slot_bytes().remade, bytes.remade);
        EXPECT_EQ(stage_->slot_bytes().pending, bytes.pending);
        EXPECT_EQ(stage_->slot_bytes().recomputed, bytes.recomputed);
        EXPECT_EQ(stage_->slot_bytes().scratch, bytes.scratch);
        EXPECT_EQ(bytes.remade > 0, !recomputed.empty());
      }
    }
  }
}

TEST_P(StageConformanceTest, SlotsOfFrozenLayersAreAsCommonLayerMemorySays) {
  const uint64_t element = BytesOf(device_->capabilities().compute_dtype);
  for (const std::vector<int>& frozen : std::vector<std::vector<int>>{{1}, {2, 3}, {0, 1, 4}, {0, 1, 2, 4}}) {
    graph_ = model_.Graph();
    for (const int layer : frozen) graph_.mutable_layers(layer)->set_frozen(true);
    for (uint32_t first = 0; first < model_.num_layers(); ++first) {
      for (uint32_t last = first; last < model_.num_layers(); ++last) {
        Make(first, last);
        const StageMemoryBytes bytes = *MemoryOfStage(graph_, {first, last}, element);
        EXPECT_EQ(stage_->slot_bytes().saved, bytes.saved);
        EXPECT_EQ(stage_->slot_bytes().shared, bytes.shared);
        EXPECT_EQ(stage_->slot_bytes().pending, bytes.pending);
        EXPECT_EQ(stage_->slot_bytes().scratch, bytes.scratch);
      }
    }
  }
}

// The second block is frozen, norm and head too: an I, and no W.
TEST_P(StageConformanceTest, AFrozenStageThatGradientsPassThroughHasAnIAlone) {
  for (const int layer : {0, 2, 3, 4}) graph_.mutable_layers(layer)->set_frozen(true);
  for (const bool recomputes : {false, true}) {
    slots_.clear();
    MakeLast(recomputes ? std::vector<uint32_t>{2} : std::vector<uint32_t>{});
    EXPECT_EQ(stage_->slot_bytes().pending, 0u);
    EXPECT_EQ(stage_->slot_bytes().recomputed > 0, recomputes);
    ASSERT_EQ(Forward(memory_), absl::OkStatus());
    if (recomputes) {
      EXPECT_EQ(Recompute(memory_), absl::OkStatus());
    }
    EXPECT_EQ(BackwardInput(memory_), absl::OkStatus());
    for (const auto& slot : slots_) EXPECT_TRUE(slot->MarginsAreIntact());
  }
}

TEST_P(StageConformanceTest, RecomputesBetweenForwardAndBackward) {
  MakeLast({2});
  ASSERT_EQ(Forward(memory_), absl::OkStatus());
  EXPECT_EQ(Recompute(memory_), absl::OkStatus());
  EXPECT_EQ(BackwardInput(memory_), absl::OkStatus());
  EXPECT_EQ(BackwardWeight(memory_), absl::OkStatus());
  // F needs the front of a pending slot alone.
  StageMemoryView memory = memory_;
  memory.pending = memory.pending.first(stage_->slot_bytes().remade);
  EXPECT_EQ(Forward(memory), absl::OkStatus());
  EXPECT_THAT(Recompute(memory).ToString(), HasSubstr("the pending slot has"));
  memory = memory_;
  memory.recomputed = memory.recomputed.first(0);
  EXPECT_THAT(Forward(memory).ToString(), HasSubstr("the recomputed slot has 0 bytes"));
  EXPECT_THAT(Recompute(memory).ToString(), HasSubstr("the recomputed slot has 0 bytes"));
  EXPECT_THAT(BackwardInput(memory).ToString(), HasSubstr("the recomputed slot has 0 bytes"));
  micro_batch_.samples = 0;
  EXPECT_EQ(Recompute(memory_), absl::OkStatus());
  for (const auto& slot : slots_) EXPECT_TRUE(slot->MarginsAreIntact());
}

TEST_P(StageConformanceTest, TheLastStageWritesTheLossPart) {
  MakeLast();
  ASSERT_EQ(Forward(memory_), absl::OkStatus());
  EXPECT_TRUE(std::isfinite(loss_));
  EXPECT_EQ(BackwardInput(memory_), absl::OkStatus());
  EXPECT_EQ(BackwardWeight(memory_), absl::OkStatus());
  for (const auto& slot : slots_) EXPECT_TRUE(slot->MarginsAreIntact());
}

TEST_P(StageConformanceTest, AnEmptyMicroBatchIsLegal) {
  MakeLast();
  micro_batch_.samples = 0;
  EXPECT_EQ(Forward(memory_), absl::OkStatus());
  EXPECT_EQ(BackwardInput(memory_), absl::OkStatus());
  EXPECT_EQ(BackwardWeight(memory_), absl::OkStatus());
}

TEST_P(StageConformanceTest, NamesASlotThatIsTooSmall) {
  MakeLast();
  const auto without = [this](std::span<std::byte> StageMemoryView::*slot) {
    StageMemoryView memory = memory_;
    (memory.*slot) = (memory.*slot).first(0);
    return memory;
  };
  for (const auto& [slot, name] : {std::pair(&StageMemoryView::saved, "saved"),
                                   {&StageMemoryView::shared, "shared"},
                                   {&StageMemoryView::pending, "pending"},
                                   {&StageMemoryView::scratch, "scratch"}}) {
    const std::string message = std::string("INVALID_ARGUMENT: the ") + name + " slot has 0 bytes, the stage needs ";
    const bool is_saved = slot == &StageMemoryView::saved, is_pending = slot == &StageMemoryView::pending;
    if (!is_pending) {
      EXPECT_THAT(Forward(without(slot)).ToString(), HasSubstr(message));
    }
    EXPECT_THAT(BackwardInput(without(slot)).ToString(), HasSubstr(message));
    if (!is_saved) {
      EXPECT_THAT(BackwardWeight(without(slot)).ToString(), HasSubstr(message));
    }
  }
}

TEST_P(StageConformanceTest, NamesMoreSamplesThanPlanned) {
  MakeLast();
  micro_batch_.samples = 3;
  for (const absl::Status& status : {Forward(memory_), BackwardInput(memory_), BackwardWeight(memory_)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("has 3 samples; the stage is planned for at most 2"));
  }
}

TEST_P(StageConformanceTest, ACancelledStreamEndsTheCall) {
  MakeLast();
  ASSERT_EQ(Forward(memory_), absl::OkStatus());
  stream_->Cancel();
  EXPECT_EQ(Forward(memory_).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(BackwardInput(memory_).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(BackwardWeight(memory_).code(), absl::StatusCode::kAborted);
}

INSTANTIATE_TEST_SUITE_P(Stages, StageConformanceTest,
                         testing::Values(Implementation{"layered", "reference"}, Implementation{"layered", "cpu"},
                                         Implementation{"simulated", "cpu"}),
                         [](const auto& stage) { return stage.param.name + "_" + stage.param.device; });

}  // namespace
}  // namespace stagecoach
