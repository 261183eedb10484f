#include "worker/profile/simulated_layer_profiler.h"

#include <gtest/gtest.h>

#include "worker/profile/timed_rounds.h"

namespace stagecoach {
namespace {

v1::LayerCall CallOf(v1::LayerKind kind) {
  v1::LayerCall call;
  call.mutable_layer()->set_kind(kind);
  call.set_seq_len(8);
  call.set_micro_batch_size(2);
  return call;
}

absl::Status GoOn() { return absl::OkStatus(); }

TEST(SimulatedLayerProfilerTest, ABlockTakesWhatItsStageWouldSleep) {
  SimulatedLayerProfiler profiler({.forward = 0.25, .backward_input = 0.5, .backward_weight = 0.125});
  const absl::StatusOr<v1::LayerSeconds> seconds = profiler.Measure(CallOf(v1::LAYER_KIND_TRANSFORMER_BLOCK), GoOn);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(seconds->forward(), 0.25);
  EXPECT_EQ(seconds->backward_input(), 0.5);
  EXPECT_EQ(seconds->backward_weight(), 0.125);
}

TEST(SimulatedLayerProfilerTest, AnyOtherLayerTakesTheShortestTimeSinceZeroWouldSayThatItIsNotKnown) {
  SimulatedLayerProfiler profiler({.forward = 0.25, .backward_input = 0.5, .backward_weight = 0});
  const absl::StatusOr<v1::LayerSeconds> head = profiler.Measure(CallOf(v1::LAYER_KIND_LANGUAGE_MODEL_HEAD), GoOn);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->forward(), kShortestCallSeconds);
  EXPECT_EQ(profiler.Measure(CallOf(v1::LAYER_KIND_TRANSFORMER_BLOCK), GoOn)->backward_weight(), kShortestCallSeconds);
}

TEST(SimulatedLayerProfilerTest, EndsWhenItMayNotGoOn) {
  SimulatedLayerProfiler profiler({});
  const auto stop = [] { return absl::AbortedError("released"); };
  EXPECT_EQ(profiler.Measure(CallOf(v1::LAYER_KIND_TRANSFORMER_BLOCK), stop).status(), absl::AbortedError("released"));
}

}  // namespace
}  // namespace stagecoach
