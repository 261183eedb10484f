// What an agent does when it is asked to measure layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "tests/testing/worker/agent_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

// Takes a call at a time, for as long as a test holds it.
class HeldProfiler final : public LayerProfiler {
 public:
  struct Hold {
    std::atomic<bool> hold{false};
    std::atomic<bool> reached{false};
  };
  explicit HeldProfiler(Hold& hold) : hold_(hold) {}
  absl::StatusOr<v1::LayerSeconds> Measure(const v1::LayerCall& call, const MayGoOn& may_go_on) override {
    hold_.reached.store(true);
    while (hold_.hold.load()) {
      if (const absl::Status status = may_go_on(); !status.ok()) return status;
      std::this_thread::yield();
    }
    v1::LayerSeconds seconds;
    seconds.set_forward(static_cast<double>(call.micro_batch_size()));
    return seconds;
  }

 private:
  Hold& hold_;
};

class AgentMeasureTest : public testing::Test {
 protected:
  v1::CoordinatorMessage Order(uint64_t attempt, uint32_t threads = 1) {
    v1::CoordinatorMessage message;
    v1::MeasureLayers& order = *message.mutable_measure_layers();
    order.set_attempt(attempt);
    order.set_threads(threads);
    order.add_layers()->set_micro_batch_size(3);
    order.add_layers()->set_micro_batch_size(5);
    return message;
  }
  void SendReleaseOfNoJob() {
    v1::CoordinatorMessage release;
    release.mutable_release();
    const std::string job = std::exchange(harness_.job, "");
    const uint64_t epoch = std::exchange(harness_.epoch, 0);
    harness_.Send(0, release);
    harness_.job = job;
    harness_.epoch = epoch;
  }
  // Asks, and waits until it is being measured; it does not end by itself.
  void BeginAndHold(uint64_t attempt) {
    hold_.hold.store(true);
    harness_.Send(0, Order(attempt));
    while (!hold_.reached.load()) std::this_thread::yield();
  }
  void ExpectMeasured(uint64_t attempt) {
    const v1::WorkerMessage message = harness_.Receive(0);
    ASSERT_TRUE(message.has_layers_measured()) << message.ShortDebugString();
    EXPECT_EQ(message.layers_measured().attempt(), attempt);
    ASSERT_EQ(message.layers_measured().layers_size(), 2);
    EXPECT_EQ(message.layers_measured().layers(0).forward(), 3);
    EXPECT_EQ(message.layers_measured().layers(1).forward(), 5);
    EXPECT_EQ(message.layers_measured().message(), "");
    EXPECT_EQ(message.fence().job(), harness_.job);
    EXPECT_EQ(message.fence().epoch(), harness_.epoch);
  }

  HeldProfiler::Hold hold_;
  AgentHarness harness_{
      {.num_stages = 1, .num_micro_batches = 2}, [this](uint32_t, AgentOptions& options) {
        options.layer_profiler_factory = [this](const ProfilerContext&) -> std::unique_ptr<LayerProfiler> {
          return std::make_unique<HeldProfiler>(hold_);
        };
      }};
};

TEST_F(AgentMeasureTest, AnswersForEachLayer) {
  harness_.Send(0, Order(7));
  ExpectMeasured(7);
}

TEST_F(AgentMeasureTest, TheEpochThatItMeasuredForCanBeAssignedAfterwards) {
  harness_.Send(0, Order(7));
  ExpectMeasured(7);
  SendReleaseOfNoJob();
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
}

TEST_F(AgentMeasureTest, HeartbeatsGoOnMeanwhile) {
  harness_.welcome.mutable_heartbeat_interval()->set_seconds(1);
  harness_.Break(0);
  harness_.Accept(0);
  harness_.Welcome(0);
  BeginAndHold(7);
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(harness_.Receive(0).has_heartbeat());
  hold_.hold.store(false);
  ExpectMeasured(7);
}

// Another coordinator may have another order with the same number.
TEST_F(AgentMeasureTest, ANewSessionEndsIt) {
  BeginAndHold(7);
  harness_.Break(0);
  harness_.Accept(0);
  harness_.Welcome(0);
  hold_.hold.store(false);
  EXPECT_TRUE(harness_.IsQuiet(0));
  harness_.Send(0, Order(8));
  ExpectMeasured(8);
}

TEST_F(AgentMeasureTest, AReleaseOfNoJobEndsItWithoutAnAnswer) {
  BeginAndHold(7);
  SendReleaseOfNoJob();
  EXPECT_TRUE(harness_.IsQuiet(0));
  hold_.hold.store(false);
  harness_.Send(0, Order(8));
  ExpectMeasured(8);
}

TEST_F(AgentMeasureTest, ANewOrderTakesThePlaceOfTheOneBefore) {
  BeginAndHold(7);
  hold_.reached.store(false);
  harness_.Send(0, Order(8));
  while (!hold_.reached.load()) std::this_thread::yield();
  hold_.hold.store(false);
  ExpectMeasured(8);
  EXPECT_TRUE(harness_.IsQuiet(0));
}

TEST_F(AgentMeasureTest, AnAssignmentEndsIt) {
  BeginAndHold(7);
  harness_.Assign();
  hold_.hold.store(false);
  harness_.Connect();
  EXPECT_TRUE(harness_.IsQuiet(0));
}

TEST_F(AgentMeasureTest, AWorkerThatHoldsAJobMeasuresNothingAndGoesOnWithIt) {
  harness_.Assign();
  harness_.Connect();
  const std::string job = std::exchange(harness_.job, "other");
  harness_.Send(0, Order(7));
  const v1::WorkerMessage message = harness_.Receive(0);
  ASSERT_TRUE(message.has_layers_measured()) << message.ShortDebugString();
  ASSERT_EQ(message.layers_measured().layers_size(), 2);
  EXPECT_EQ(message.layers_measured().layers(0).forward(), 0);
  EXPECT_EQ(message.layers_measured().message(), "it holds job job");
  EXPECT_EQ(message.fence().job(), "other");
  SendReleaseOfNoJob();
  harness_.job = job;
  harness_.PrepareStep(1);
}

TEST_F(AgentMeasureTest, MoreThreadsThanItHasAreRefused) {
  harness_.Send(0, Order(7, 1000));
  const v1::WorkerMessage message = harness_.Receive(0);
  EXPECT_EQ(message.layers_measured().layers_size(), 2);
  EXPECT_THAT(message.layers_measured().message(), HasSubstr("the job wants 1000 threads"));
}

TEST_F(AgentMeasureTest, AnOrderOfAnOldTermIsDropped) {
  harness_.term = 2;
  harness_.Send(0, Order(7));
  ExpectMeasured(7);
  harness_.term = 1;
  harness_.Send(0, Order(8));
  EXPECT_TRUE(harness_.IsQuiet(0));
}

}  // namespace
}  // namespace stagecoach
