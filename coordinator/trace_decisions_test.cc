#include "coordinator/trace_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TraceDecisionsTest : public testing::Test {
 protected:
  TraceDecisionsTest() {
    for (const char* name : {"a", "b"}) harness_.Connect(name);
    job_ = harness_.Submit(SmallSpec());
    harness_.FinishPlanning(SmallPlan(2));
  }

  void Reach(uint64_t step) {
    harness_.RunUntil([&] { return harness_.job(job_).history.last_commit.step() == step; });
  }
  // The error; OK: the reading has begun.
  absl::Status Ask(uint32_t steps, const JobId& job) {
    harness_.answer.reset();
    harness_.Feed(TraceRequested{1, kReading, job, steps});
    return harness_.answer->status();
  }
  absl::Status Ask(uint32_t steps) { return Ask(steps, job_); }
  std::vector<v1::CoordinatorMessage> Asked(const std::string& worker) const {
    return harness_.Sent(worker, v1::CoordinatorMessage::kReadTrace);
  }
  const BeginTraceReading& reading() const { return harness_.trace_readings.back(); }

  static constexpr uint64_t kReading = 77;
  DecideHarness harness_;
  JobId job_;
};

TEST_F(TraceDecisionsTest, EveryMemberIsAskedForTheLastCommittedSteps) {
  Reach(3);
  ASSERT_TRUE(Ask(2).ok());
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(Asked(name).size(), 1u);
    const v1::ReadTrace order = Asked(name)[0].read_trace();
    EXPECT_EQ(order.request(), kReading);
    EXPECT_EQ(order.job(), job_.value());
    EXPECT_EQ(order.first_step(), 2u);
    EXPECT_EQ(order.last_step(), 3u);
    EXPECT_EQ(Asked(name)[0].fence().job(), "");
    EXPECT_EQ(Asked(name)[0].fence().incarnation(), 1u);
  }
  EXPECT_EQ(reading().reading, kReading);
  EXPECT_EQ(reading().deadline, harness_.now + kTraceTimeout);
  EXPECT_EQ(reading().awaited.size(), 2u);
  EXPECT_THAT(reading().missing, IsEmpty());
  EXPECT_EQ(reading().header.members(1).worker(), "b");
  EXPECT_THAT(reading().header.members(1).stages(), ElementsAre(1));
}

TEST_F(TraceDecisionsTest, ThereAreNoMoreStepsThanWereCommitted) {
  Reach(2);
  ASSERT_TRUE(Ask(100).ok());
  EXPECT_EQ(reading().header.first_step(), 1u);
  EXPECT_EQ(reading().header.last_step(), 2u);
}

TEST_F(TraceDecisionsTest, WhoIsNotThereIsMissing) {
  Reach(2);
  harness_.Lose("a");
  ASSERT_TRUE(Ask(1).ok());
  EXPECT_THAT(Asked("a"), IsEmpty());
  EXPECT_EQ(Asked("b").size(), 1u);
  EXPECT_THAT(reading().missing, ElementsAre(testing::Pair(0u, HasSubstr("not connected"))));
  harness_.Connect("a", 2);
  ASSERT_TRUE(Ask(1).ok());
  EXPECT_THAT(reading().missing, ElementsAre(testing::Pair(0u, HasSubstr("its process has ended"))));
}

TEST_F(TraceDecisionsTest, AJobThatHasEndedMayStillBeAskedFor) {
  harness_.RunUntilQuiet();
  ASSERT_EQ(harness_.job(job_).history.state, v1::JOB_STATE_SUCCEEDED);
  ASSERT_TRUE(Ask(1).ok());
  EXPECT_EQ(Asked("a").size(), 1u);
}

TEST_F(TraceDecisionsTest, WhatCannotBeReadIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(Ask(1, JobId("none"))));
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask(1)));  // no step is complete
  EXPECT_THAT(harness_.trace_readings, IsEmpty());
}

TEST_F(TraceDecisionsTest, PartsAreTakenFromTheSessionsIncarnationAlone) {
  Reach(1);
  v1::WorkerMessage part = harness_.Fenced("a", job_);
  part.mutable_trace_part()->set_request(kReading);
  harness_.Say("a", part);
  ASSERT_EQ(harness_.trace_parts.size(), 1u);
  EXPECT_EQ(harness_.trace_parts[0].worker, WorkerId("a"));
  EXPECT_EQ(harness_.trace_parts[0].part.request(), kReading);
  part.mutable_fence()->set_incarnation(9);
  harness_.Say("a", part);
  part = harness_.Fenced("a", job_);
  part.mutable_trace_part();
  part.mutable_fence()->set_coordinator_term(99);
  harness_.Say("a", part);
  EXPECT_EQ(harness_.trace_parts.size(), 1u);
}

TEST_F(TraceDecisionsTest, WorkersAreToldTheTimeForTheirTimelines) {
  harness_.Pass(absl::Seconds(1));
  const auto replies = harness_.Sent("a", v1::CoordinatorMessage::kHeartbeatReply);
  ASSERT_FALSE(replies.empty());
  EXPECT_EQ(replies.back().heartbeat_reply().clock_nanoseconds(), absl::ToInt64Nanoseconds(harness_.now));
  harness_.Connect("c");
  const auto welcomes = harness_.Sent("c", v1::CoordinatorMessage::kWelcome);
  ASSERT_EQ(welcomes.size(), 1u);
  EXPECT_EQ(welcomes[0].welcome().clock_nanoseconds(), absl::ToInt64Nanoseconds(harness_.now));
}

}  // namespace
}  // namespace stagecoach
