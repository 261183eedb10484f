#include "worker/model/simulated_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/model/small_model.h"
#include "worker/model/stage_bench.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kStart = absl::Seconds(1000);

// Time that passes when somebody sleeps, as a test says.
struct TestTime {
  absl::Duration now = kStart;
  std::vector<absl::Duration> sleeps;  // until when, since kStart
  std::function<void(absl::Duration until)> sleep = [this](absl::Duration until) { now = until; };
};

class TestTimer final : public StageTimer {
 public:
  explicit TestTimer(TestTime& time) : time_(time) {}
  absl::Duration Now() const override { return time_.now; }
  void SleepUntil(absl::Duration time) override {
    time_.sleeps.push_back(time - kStart);
    time_.sleep(time);
  }

 private:
  TestTime& time_;
};

class SimulatedStageTest : public testing::Test {
 protected:
  // The model is an embedding, three blocks, a norm and a head: layers 0 to 5.
  void Make(uint32_t first, uint32_t last, const SimulatedCosts& costs, const std::vector<uint32_t>& recomputed = {}) {
    stage_ = *SimulatedStage::Create(costs, std::make_unique<TestTimer>(time_), *device_, model_.Graph(),
                                     {first, last, recomputed});
    const StageSlotBytes& bytes = stage_->slot_bytes();
    slots_.clear();
    for (const uint64_t size : {bytes.saved, bytes.shared, bytes.pending, bytes.scratch, bytes.recomputed}) {
      slots_.push_back(std::make_unique<GuardedMemory>(*device_, size));
    }
    memory_ = {slots_[0]->span(), slots_[1]->span(), slots_[2]->span(), slots_[3]->span(), slots_[4]->span()};
  }
  // How long a call has taken, which must succeed.
  absl::Duration Time(const std::function<absl::Status()>& call) {
    const absl::Duration start = time_.now;
    EXPECT_EQ(call(), absl::OkStatus());
    return time_.now - start;
  }
  absl::Status Forward() { return stage_->Forward(micro_batch_, {}, {}, Output(), memory_); }
  absl::Status Recompute() { return stage_->Recompute(micro_batch_, memory_); }
  absl::Status BackwardInput() { return stage_->BackwardInput(micro_batch_, {}, {}, memory_); }
  absl::Status BackwardWeight() { return stage_->BackwardWeight(micro_batch_, {}, memory_); }
  Tensor Output() { return Tensor::Of(&output_, v1::DTYPE_F64, {1}); }

  SmallModel model_{.blocks = 3, .micro_batch_size = 4};
  const std::unique_ptr<Device> device_ = *CpuDevice::Create({});
  const std::unique_ptr<Stream> stream_ = *device_->CreateStream();
  MicroBatch micro_batch_{.step = Step(1), .index = MicroBatchIndex(0), .samples = 4, .stream = stream_.get()};
  TestTime time_;
  std::unique_ptr<SimulatedStage> stage_;
  std::vector<std::unique_ptr<GuardedMemory>> slots_;
  StageMemoryView memory_;
  double output_ = 5;
};

TEST_F(SimulatedStageTest, TakesTheTimeOfItsBlocks) {
  Make(0, 2, {.forward = 0.01, .backward_input = 0.02, .backward_weight = 0.005});
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(20));
  EXPECT_EQ(Time([&] { return BackwardInput(); }), absl::Milliseconds(40));
  EXPECT_EQ(Time([&] { return BackwardWeight(); }), absl::Milliseconds(10));
  EXPECT_THAT(time_.sleeps, ElementsAre(absl::Milliseconds(20), absl::Milliseconds(60), absl::Milliseconds(70)));
}

TEST_F(SimulatedStageTest, FrozenBlocksTakeTheTimeOfWhatIsLeftOfThem) {
  model_.tied = false;
  model_.frozen = {0, 1, 3};
  Make(0, 3, {.forward = 0.01, .backward_input = 0.02, .backward_weight = 0.005});
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(30));
  EXPECT_EQ(Time([&] { return BackwardInput(); }), absl::Milliseconds(40));
  EXPECT_EQ(Time([&] { return BackwardWeight(); }), absl::Milliseconds(5));
}

TEST_F(SimulatedStageTest, RecomputationTakesAForwardOfItsBlocks) {
  Make(0, 3, {.forward = 0.01, .backward_input = 0.02, .backward_weight = 0.005}, {1, 3});
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(30));
  EXPECT_EQ(Time([&] { return Recompute(); }), absl::Milliseconds(20));
  EXPECT_EQ(Time([&] { return BackwardInput(); }), absl::Milliseconds(60));
}

TEST_F(SimulatedStageTest, EmbeddingNormAndHeadTakeNone) {
  Make(3, 5, {.forward = 0.01, .backward_input = 0.02, .backward_weight = 0.005});
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(10));
  Make(4, 5, {.forward = 0.01, .backward_input = 0.02, .backward_weight = 0.005});
  EXPECT_EQ(Time([&] { return Forward(); }), absl::ZeroDuration());
  EXPECT_EQ(Time([&] { return BackwardInput(); }), absl::ZeroDuration());
}

TEST_F(SimulatedStageTest, ARaggedMicroBatchTakesItsShare) {
  Make(1, 1, {.forward = 0.02, .backward_input = 0.04, .backward_weight = 0.008});
  micro_batch_.samples = 1;
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(5));
  EXPECT_EQ(Time([&] { return BackwardInput(); }), absl::Milliseconds(10));
  micro_batch_.samples = 3;
  EXPECT_EQ(Time([&] { return BackwardWeight(); }), absl::Milliseconds(6));
  micro_batch_.samples = 0;
  EXPECT_EQ(Time([&] { return Forward(); }), absl::ZeroDuration());
}

TEST_F(SimulatedStageTest, SleepsOnWhenItIsWokenEarly) {
  Make(1, 1, {.forward = 0.02});
  time_.sleep = [&](absl::Duration until) { time_.now = std::min(until, time_.now + absl::Milliseconds(15)); };
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(20));
  EXPECT_THAT(time_.sleeps, ElementsAre(absl::Milliseconds(20), absl::Milliseconds(20)));
}

TEST_F(SimulatedStageTest, ALateWakeUpIsNotSleptAgain) {
  Make(1, 1, {.forward = 0.02});
  time_.sleep = [&](absl::Duration until) { time_.now = until + absl::Milliseconds(1); };
  EXPECT_EQ(Time([&] { return Forward(); }), absl::Milliseconds(21));
}

TEST_F(SimulatedStageTest, EndsWithinATenthOfASecondOfBeingCancelled) {
  Make(1, 1, {.forward = 100, .backward_input = 100, .backward_weight = 100});
  const std::vector<std::function<absl::Status()>> calls = {[&] { return Forward(); }, [&] { return BackwardInput(); },
                                                            [&] { return BackwardWeight(); }};
  for (const auto& call : calls) {
    const std::unique_ptr<Stream> stream = *device_->CreateStream();
    micro_batch_.stream = stream.get();
    const absl::Duration cancelled = time_.now + absl::Seconds(10);
    time_.sleep = [&](absl::Duration until) {
      if (until > cancelled) stream->Cancel();
      time_.now = until;
    };
    EXPECT_EQ(call().code(), absl::StatusCode::kAborted);
    EXPECT_LE(time_.now - cancelled, absl::Milliseconds(100));
  }
}

TEST_F(SimulatedStageTest, TouchesNothingButTheLoss) {
  Make(2, 5, {.forward = 0.02, .backward_input = 0.02, .backward_weight = 0.02});
  EXPECT_EQ(Forward(), absl::OkStatus());
  EXPECT_EQ(output_, 0);
  EXPECT_EQ(BackwardInput(), absl::OkStatus());
  EXPECT_EQ(BackwardWeight(), absl::OkStatus());
  for (const auto& slot : slots_) {
    EXPECT_TRUE(slot->MarginsAreIntact());
    EXPECT_TRUE(std::all_of(slot->span().begin(), slot->span().end(),
                            [](std::byte byte) { return byte == std::byte{0xFF}; }));  // as GuardedMemory left it
  }
  output_ = 5;
  Make(1, 3, {});
  EXPECT_EQ(Forward(), absl::OkStatus());
  EXPECT_EQ(output_, 5);  // an activation
}

TEST_F(SimulatedStageTest, ALossNeedsItsPlace) {
  Make(2, 5, {});
  EXPECT_THAT(stage_->Forward(micro_batch_, {}, {}, {}, memory_).ToString(),
              HasSubstr("INVALID_ARGUMENT: the stage's output is missing, must be a loss, f64[1]"));
  float wrong = 0;
  EXPECT_THAT(stage_->Forward(micro_batch_, {}, {}, Tensor::Of(&wrong, v1::DTYPE_F32, {1}), memory_).ToString(),
              HasSubstr("output is f32[1], must be"));
}

}  // namespace
}  // namespace stagecoach
