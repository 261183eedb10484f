#include "client/coordinator_client/reconnecting_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/simulated_clock.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);          // as the verbs do
constexpr absl::Duration kLongestWait = absl::Seconds(1);          // between two attempts
constexpr absl::Duration kTimeToRefuse = absl::Milliseconds(1);    // of an address where nobody listens
constexpr absl::Duration kTimeToConnect = absl::Milliseconds(20);  // what connecting takes

// A coordinator in simulated time: there, gone, or behind a network that swallows everything.
class ReconnectingStreamTest : public ::testing::Test {
 protected:
  enum class Coordinator { kThere, kGone, kSwallowed, kHangsUp };

  class Call final : public StreamCall<std::string> {
   public:
    explicit Call(ReconnectingStreamTest& test) : test_(test), opened_(test.clock_.Now()), life_(test.life_) {}
    absl::StatusOr<std::optional<std::string>> Next(absl::Duration timeout) override {
      return test_.NextOf(*this, timeout);
    }
    absl::Duration opened() const { return opened_; }
    int life() const { return life_; }

   private:
    ReconnectingStreamTest& test_;
    const absl::Duration opened_;
    const int life_;  // of the coordinator
  };

  ReconnectingStreamTest()
      : stream_({.call = [this] { return std::make_unique<Call>(*this); },
                 .is_connected =
                     [this] { return coordinator_ == Coordinator::kThere || coordinator_ == Coordinator::kHangsUp; },
                 .clock = clock_,
                 .sleep = [this](absl::Duration time) { clock_.Advance(std::max(time, absl::ZeroDuration())); },
                 .seed = 1},
                {.timeout = absl::Minutes(1), .on_outage = [this](const absl::Status&) { ++num_outages_; }}) {}

  absl::StatusOr<std::optional<std::string>> NextOf(const Call& call, absl::Duration timeout) {
    if (coordinator_ == Coordinator::kSwallowed) {
      clock_.Advance(timeout);
      return std::nullopt;
    }
    clock_.Advance(std::min(timeout, kTimeToRefuse));
    if (coordinator_ == Coordinator::kGone || call.life() != life_) return absl::UnavailableError("connection refused");
    if (coordinator_ == Coordinator::kHangsUp) return absl::UnavailableError("hung up");
    if (clock_.Now() - call.opened() >= kTimeToConnect && !messages_.empty()) {
      std::string message = std::move(messages_.front());
      messages_.pop_front();
      return message;
    }
    clock_.Advance(std::max(timeout - kTimeToRefuse, absl::ZeroDuration()));
    return std::nullopt;
  }

  void Become(Coordinator coordinator) {
    coordinator_ = coordinator;
    if (coordinator != Coordinator::kSwallowed) ++life_;
  }
  // Reads for so long, as a verb does; stops at an error.
  void Read(absl::Duration time) {
    const absl::Duration end = clock_.Now() + time;
    while (clock_.Now() < end && error_.ok()) {
      const absl::Duration begin = clock_.Now();
      const absl::StatusOr<std::optional<std::string>> message = stream_.Next(kPoll);
      longest_read_ = std::max(longest_read_, clock_.Now() - begin);
      if (!message.ok()) error_ = message.status();
      if (message.ok() && message->has_value()) seen_.push_back(**message);
    }
  }

  SimulatedClock clock_;
  Coordinator coordinator_ = Coordinator::kThere;
  int life_ = 0;
  std::deque<std::string> messages_;
  std::vector<std::string> seen_;
  absl::Status error_;
  absl::Duration longest_read_;
  int num_outages_ = 0;
  ReconnectingStream<std::string> stream_;
};

TEST_F(ReconnectingStreamTest, IsLostWhenTheCoordinatorIsAwayForAMinuteAndNotBefore) {
  messages_ = {"1", "2"};
  Read(absl::Seconds(5));
  Become(Coordinator::kGone);
  Read(absl::Seconds(59));
  EXPECT_TRUE(error_.ok()) << error_;
  Read(absl::Seconds(1) + kLongestWait + kPoll);
  EXPECT_EQ(error_, absl::UnavailableError("connection refused"));
  EXPECT_EQ(num_outages_, 1);
  EXPECT_EQ(seen_, (std::vector<std::string>{"1", "2"}));
}

TEST_F(ReconnectingStreamTest, GoesOnWithACoordinatorThatIsBackInTime) {
  messages_ = {"1"};
  Read(absl::Seconds(1));
  Become(Coordinator::kGone);
  Read(absl::Seconds(58));
  messages_ = {"2", "3"};
  Become(Coordinator::kThere);
  Read(kLongestWait + kPoll);
  EXPECT_EQ(seen_, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_TRUE(error_.ok()) << error_;
}

TEST_F(ReconnectingStreamTest, EachOutageHasItsOwnMinuteAndIsToldOnce) {
  for (int outage = 1; outage <= 3; ++outage) {
    Become(Coordinator::kGone);
    Read(absl::Seconds(40));
    Become(Coordinator::kThere);
    Read(absl::Seconds(5));  // quiet: there is nothing to say
    EXPECT_TRUE(error_.ok()) << error_;
    EXPECT_EQ(num_outages_, outage);
  }
}

TEST_F(ReconnectingStreamTest, WhoAcceptsAndHangsUpIsNotBack) {
  Become(Coordinator::kHangsUp);
  Read(absl::Minutes(1) + kLongestWait + kPoll);
  EXPECT_EQ(error_, absl::UnavailableError("hung up"));
  EXPECT_EQ(num_outages_, 1);
}

TEST_F(ReconnectingStreamTest, ANetworkThatSwallowsEverythingIsNoReturnEither) {
  Become(Coordinator::kGone);
  Read(absl::Seconds(10));
  Become(Coordinator::kSwallowed);
  Read(absl::Seconds(49));
  EXPECT_TRUE(error_.ok()) << error_;
  Read(absl::Seconds(3));
  EXPECT_TRUE(absl::IsUnavailable(error_)) << error_;
}

// Whoever waits wants to see an interrupt.
TEST_F(ReconnectingStreamTest, NobodyWaitsForLongerThanAsked) {
  Become(Coordinator::kGone);
  Read(absl::Seconds(50));
  EXPECT_LE(longest_read_, kPoll + 2 * kTimeToRefuse);
}

}  // namespace
}  // namespace stagecoach
