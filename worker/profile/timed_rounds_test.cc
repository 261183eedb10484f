#include "worker/profile/timed_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

// Calls that take the times of a list, one after another, and then its last for ever.
class TimedRoundsTest : public testing::Test {
 protected:
  std::function<absl::Status()> Taking(const std::string& name, std::vector<absl::Duration> times) {
    return [this, name, times, next = size_t{0}]() mutable {
      made_ += name;
      clock_.Advance(times[std::min(next++, times.size() - 1)]);
      return absl::OkStatus();
    };
  }
  absl::StatusOr<v1::LayerSeconds> Measure(const TimedCalls& calls, const RoundOptions& options = {}) {
    return MedianOfRounds(
        calls, clock_, [this] { return may_go_on_(); }, options);
  }

  SimulatedClock clock_;
  std::string made_;
  std::function<absl::Status()> may_go_on_ = [] { return absl::OkStatus(); };
};

constexpr absl::Duration kSecond = absl::Seconds(1);

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

TEST_F(TimedRoundsTest, TakesTheMedianOfThreeRoundsAfterOneThatDoesNotCount) {
  const TimedCalls calls = {
      .forward = Taking("F", {100 * kMillisecond, 1 * kMillisecond, 9 * kMillisecond, 2 * kMillisecond}),
      .backward_input = Taking("I", {100 * kMillisecond, 3 * kMillisecond}),
      .backward_weight = Taking("W", {4 * kMillisecond})};
  const absl::StatusOr<v1::LayerSeconds> seconds = Measure(calls, {.enough = absl::ZeroDuration()});
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(made_, "FIWFIWFIWFIW");
  EXPECT_DOUBLE_EQ(seconds->forward(), 2e-3);
  EXPECT_DOUBLE_EQ(seconds->backward_input(), 3e-3);
  EXPECT_DOUBLE_EQ(seconds->backward_weight(), 4e-3);
}

TEST_F(TimedRoundsTest, OneMoreIsEnoughOfARoundThatTakesLong) {
  const absl::StatusOr<v1::LayerSeconds> seconds = Measure({.forward = Taking("F", {4 * kSecond, 3 * kSecond}),
                                                            .backward_input = Taking("I", {2 * kSecond}),
                                                            .backward_weight = Taking("W", {1 * kSecond})});
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(made_, "FIWFIW");
  EXPECT_DOUBLE_EQ(seconds->forward(), 3);
}

TEST_F(TimedRoundsTest, MakesAsManyRoundsAsBeginWithinATenthOfASecond) {
  const absl::Duration call = absl::Milliseconds(5);
  ASSERT_TRUE(
      Measure(
          {.forward = Taking("F", {call}), .backward_input = Taking("", {call}), .backward_weight = Taking("", {call})})
          .ok());
  // They begin at 0, 15, ... 90 ms.
  EXPECT_EQ(made_, "F" + std::string(7, 'F'));
}

TEST_F(TimedRoundsTest, EndsThoughNoTimePassesAndSaysThatCallsTakeTheShortestTime) {
  const absl::Duration none;
  const absl::StatusOr<v1::LayerSeconds> seconds = Measure(
      {.forward = Taking("F", {none}), .backward_input = Taking("", {none}), .backward_weight = Taking("", {none})},
      {.most = 10});
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(made_.size(), 11u);
  EXPECT_EQ(seconds->forward(), kShortestCallSeconds);
  EXPECT_EQ(seconds->backward_weight(), kShortestCallSeconds);
}

TEST_F(TimedRoundsTest, AsksBeforeEachCallWhetherItMayGoOn) {
  int asked = 0;
  may_go_on_ = [&] { return ++asked == 6 ? absl::AbortedError("released") : absl::OkStatus(); };
  const TimedCalls calls = {.forward = Taking("F", {kSecond}),
                            .backward_input = Taking("I", {kSecond}),
                            .backward_weight = Taking("W", {kSecond})};
  EXPECT_EQ(Measure(calls).status(), absl::AbortedError("released"));
  EXPECT_EQ(made_, "FIWFI");
}

TEST_F(TimedRoundsTest, EndsWithTheErrorOfACall) {
  const TimedCalls calls = {.forward = Taking("F", {kSecond}),
                            .backward_input = [] { return absl::InternalError("the device has failed"); },
                            .backward_weight = Taking("W", {kSecond})};
  EXPECT_EQ(Measure(calls).status(), absl::InternalError("the device has failed"));
  EXPECT_EQ(made_, "F");
}

}  // namespace
}  // namespace stagecoach
