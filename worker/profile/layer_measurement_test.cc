#include "worker/profile/layer_measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeProfiler final : public LayerProfiler {
 public:
  absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) override {
    asked.push_back(call.layer().name());
    return measure(call, may_go_on);
  }

  std::vector<std::string> asked;
  std::function<absl::StatusOr<v1::LayerSeconds>(const v1::LayerCall& call, const MayGoOn& may_go_on)> measure;
};

v1::LayerSeconds Forward(double seconds) {
  v1::LayerSeconds times;
  times.set_forward(seconds);
  return times;
}

v1::MeasureLayers Order(const std::vector<std::string>& names) {
  v1::MeasureLayers order;
  order.set_attempt(7);
  for (const std::string& name : names) {
    v1::LayerCall& call = *order.add_layers();
    call.mutable_layer()->set_name(name);
    call.set_micro_batch_size(4);
  }
  return order;
}

class LayerMeasurementTest : public testing::Test {
 protected:
  SimulatedClock clock_;
  FakeProfiler profiler_;
  absl::Status interrupt_;
  const MayGoOn may_go_on_ = [this] { return interrupt_; };
};

TEST_F(LayerMeasurementTest, AnswersForEachLayerInTheOrderAsked) {
  profiler_.measure = [](const v1::LayerCall& call, const MayGoOn&) {
    return Forward(call.layer().name() == "block" ? 2 : 1);
  };
  const absl::StatusOr<v1::LayersMeasured> answer =
      MeasureAll(Order({"embedding", "block"}), profiler_, clock_, may_go_on_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->attempt(), 7u);
  ASSERT_EQ(answer->layers_size(), 2);
  EXPECT_EQ(answer->layers(0).forward(), 1);
  EXPECT_EQ(answer->layers(1).forward(), 2);
  EXPECT_EQ(answer->message(), "");
}

TEST_F(LayerMeasurementTest, ALayerThatDoesNotFitHasZerosAndTheOthersTheirTimes) {
  profiler_.measure = [](const v1::LayerCall& call, const MayGoOn&) -> absl::StatusOr<v1::LayerSeconds> {
    if (call.layer().name() == "head") return absl::ResourceExhaustedError("needs too much");
    return Forward(1);
  };
  const absl::StatusOr<v1::LayersMeasured> answer = MeasureAll(Order({"head", "norm"}), profiler_, clock_, may_go_on_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->layers(0).forward(), 0);
  EXPECT_EQ(answer->layers(1).forward(), 1);
  EXPECT_EQ(answer->message(), "head with 4 samples: needs too much");
}

TEST_F(LayerMeasurementTest, WhatIsNotDoneInTimeIsNotMeasured) {
  profiler_.measure = [&](const v1::LayerCall&, const MayGoOn& may_go_on) -> absl::StatusOr<v1::LayerSeconds> {
    if (const absl::Status status = may_go_on(); !status.ok()) return status;
    clock_.Advance(kMeasurementTime * 0.6);
    if (const absl::Status status = may_go_on(); !status.ok()) return status;
    return Forward(1);
  };
  const absl::StatusOr<v1::LayersMeasured> answer =
      MeasureAll(Order({"one", "two", "three"}), profiler_, clock_, may_go_on_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->layers(0).forward(), 1);
  EXPECT_EQ(answer->layers(1).forward(), 0);
  EXPECT_EQ(answer->layers(2).forward(), 0);
  EXPECT_THAT(answer->message(), HasSubstr("three with 4 samples: the 20s are over"));
}

TEST_F(LayerMeasurementTest, AnInterruptEndsItWithoutAnAnswer) {
  profiler_.measure = [&](const v1::LayerCall&, const MayGoOn& may_go_on) -> absl::StatusOr<v1::LayerSeconds> {
    interrupt_ = absl::AbortedError("released");
    return may_go_on();
  };
  EXPECT_EQ(MeasureAll(Order({"one", "two"}), profiler_, clock_, may_go_on_).status(), absl::AbortedError("released"));
  EXPECT_THAT(profiler_.asked, ElementsAre("one"));
}

TEST_F(LayerMeasurementTest, NothingMeasuredHasZerosForAll) {
  const v1::LayersMeasured answer = NothingMeasured(Order({"one", "two"}), "it holds a job");
  EXPECT_EQ(answer.attempt(), 7u);
  ASSERT_EQ(answer.layers_size(), 2);
  EXPECT_EQ(answer.layers(1).forward(), 0);
  EXPECT_EQ(answer.message(), "it holds a job");
}

}  // namespace
}  // namespace stagecoach
