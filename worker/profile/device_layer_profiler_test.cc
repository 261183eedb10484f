#include "worker/profile/device_layer_profiler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/device_factory.h"
#include "worker/device/reference/reference_device.h"
#include "worker/model/small_model.h"
#include "worker/profile/lone_layer.h"

namespace stagecoach {
namespace {

// Time goes on by one microsecond with each look: what is measured depends on no machine.
class LookingClock final : public Clock {
 public:
  absl::Duration Now() const override { return ++looks_ * absl::Microseconds(1); }

 private:
  mutable int64_t looks_ = 0;
};

struct NamedDevice {
  const char* name;
  absl::StatusOr<std::unique_ptr<Device>> (*make)();
};
std::string NameOf(const testing::TestParamInfo<NamedDevice>& info) { return info.param.name; }

v1::LayerCall CallOf(const SmallModel& model, uint32_t layer) {
  const v1::ModelGraph graph = model.Graph();
  v1::LayerCall call;
  *call.mutable_layer() = graph.layers(static_cast<int>(layer));
  call.set_seq_len(graph.seq_len());
  call.set_micro_batch_size(graph.micro_batch_size());
  return call;
}

class DeviceLayerProfilerTest : public testing::TestWithParam<NamedDevice> {
 protected:
  DeviceLayerProfilerTest() : device_(*GetParam().make()) {}
  absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call) {
    return DeviceLayerProfiler({.device = *device_, .clock = clock_, .memory_bytes = memory_bytes_})
        .Measure(call, may_go_on_);
  }

  const std::unique_ptr<Device> device_;
  LookingClock clock_;
  uint64_t memory_bytes_ = 0;
  MayGoOn may_go_on_ = [] { return absl::OkStatus(); };
};

// Small layers are measured eight at a time, in one microsecond of this clock.
constexpr double kSecondsOfMostCopies = 1e-6 / 8;

TEST_P(DeviceLayerProfilerTest, MeasuresEveryKindOfLayer) {
  for (const bool tied : {false, true}) {
    const SmallModel model{.tied = tied, .dropout = 0.1};
    for (uint32_t layer = 0; layer < model.num_layers(); ++layer) {
      const absl::StatusOr<v1::LayerSeconds> seconds = Measure(CallOf(model, layer));
      ASSERT_TRUE(seconds.ok()) << layer << ": " << seconds.status();
      EXPECT_NEAR(seconds->forward(), kSecondsOfMostCopies, 1e-12);
      EXPECT_NEAR(seconds->backward_input(), kSecondsOfMostCopies, 1e-12);
      EXPECT_NEAR(seconds->backward_weight(), kSecondsOfMostCopies, 1e-12);
    }
  }
}

TEST_P(DeviceLayerProfilerTest, ALayerThatNeedsMoreThanTheWorkerMayUseIsNotBuilt) {
  memory_bytes_ = 64;
  EXPECT_EQ(Measure(CallOf(SmallModel{}, 1)).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(DeviceLayerProfilerTest, MeasuresAsManyCopiesAsTheMemoryHolds) {
  const v1::LayerCall call = CallOf(SmallModel{}, 1);
  const uint64_t bytes = (*LoneLayer::Create(*device_, call, 0))->bytes();
  memory_bytes_ = 2 * bytes + bytes / 2;
  const absl::StatusOr<v1::LayerSeconds> seconds = Measure(call);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_NEAR(seconds->forward(), 1e-6 / 2, 1e-12);
}

TEST_P(DeviceLayerProfilerTest, WhatIsNoLayerIsRefused) {
  v1::LayerCall call = CallOf(SmallModel{}, 1);
  call.set_micro_batch_size(0);
  EXPECT_EQ(Measure(call).status().code(), absl::StatusCode::kInvalidArgument);
  call.set_micro_batch_size(UINT64_MAX);
  EXPECT_EQ(Measure(call).status().code(), absl::StatusCode::kInvalidArgument);
  call = CallOf(SmallModel{}, 1);
  call.mutable_layer()->set_kind(v1::LAYER_KIND_UNSPECIFIED);
  EXPECT_EQ(Measure(call).status().code(), absl::StatusCode::kInvalidArgument);
  call = CallOf(SmallModel{}, 1);
  call.mutable_layer()->clear_parameters();
  EXPECT_EQ(Measure(call).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DeviceLayerProfilerTest, EndsWhenItMayNotGoOn) {
  may_go_on_ = [] { return absl::AbortedError("released"); };
  EXPECT_EQ(Measure(CallOf(SmallModel{}, 1)).status(), absl::AbortedError("released"));
}

// What is measured is the layer's work: its calls write what they would in training.
TEST_P(DeviceLayerProfilerTest, TheHeadsLossIsThatOfRandomParameters) {
  const SmallModel model{.std = 1e-6};
  const absl::StatusOr<std::unique_ptr<LoneLayer>> head =
      LoneLayer::Create(*device_, CallOf(model, model.num_layers() - 1), 0);
  ASSERT_TRUE(head.ok()) << head.status();
  ASSERT_EQ((*head)->Forward(), absl::OkStatus());
  EXPECT_NEAR((*head)->loss(), std::log(static_cast<double>(model.vocab)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLayerProfilerTest,
                         testing::Values(NamedDevice{"cpu",
                                                     []() -> absl::StatusOr<std::unique_ptr<Device>> {
                                                       return CpuDevice::Create({});
                                                     }},
                                         NamedDevice{"reference",
                                                     []() -> absl::StatusOr<std::unique_ptr<Device>> {
                                                       return ReferenceDevice::Create({});
                                                     }}),
                         NameOf);

}  // namespace
}  // namespace stagecoach
