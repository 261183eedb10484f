#include "coordinator/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class RetentionTest : public testing::Test {
 protected:
  RetentionTest() {
    harness_.state = State({.keep_jobs = 2});
    harness_.journal.clear();
  }
  std::vector<std::string> Jobs() const {
    std::vector<std::string> names;
    for (const auto& [id, job] : harness_.state.jobs()) names.push_back(id.value());
    return names;
  }
  JobId Run(const std::string& name) {
    const JobId job = harness_.Submit(SmallSpec(name));
    harness_.FinishPlanning(SmallPlan(1));
    harness_.RunUntilQuiet();
    EXPECT_EQ(harness_.job(job).history.state, v1::JOB_STATE_SUCCEEDED) << harness_.job(job).history.message;
    return job;
  }
  JobId Cancelled(const std::string& name) {
    const JobId job = harness_.Submit(SmallSpec(name));
    harness_.Feed(CancelRequested{1, job});
    while (harness_.planning.has_value()) harness_.FinishPlanning(SmallPlan(1));  // too late
    return job;
  }

  DecideHarness harness_;
};

using Names = std::vector<std::string>;

TEST_F(RetentionTest, WhatEndedFirstIsForgottenFirst) {
  const JobId waits = harness_.Submit(SmallSpec("waits"));
  const JobId a = harness_.Submit(SmallSpec("a"));
  for (const char* name : {"b", "c"}) Cancelled(name);
  harness_.Feed(CancelRequested{1, a});
  EXPECT_EQ(Jobs(), (Names{"a", "c", "waits"}));
  Cancelled("d");
  EXPECT_EQ(Jobs(), (Names{"a", "d", "waits"}));
  EXPECT_EQ(harness_.job(waits).history.state, v1::JOB_STATE_QUEUED);
}

TEST_F(RetentionTest, ReplayForgetsTheSame) {
  for (const char* name : {"a", "b", "c", "d", "a", "b"}) Cancelled(name);
  EXPECT_EQ(Jobs(), (Names{"a", "b"}));
  EXPECT_EQ(DurableText(Replay(harness_.journal)), DurableText(harness_.state));
  // Who keeps fewer forgets more at its start.
  harness_.state = State({.keep_jobs = 1});
  for (const v1::JournalEntry& entry : harness_.journal) harness_.state.Apply(entry);
  harness_.Feed(Restarted{});
  EXPECT_EQ(Jobs(), (Names{"b"}));
}

TEST_F(RetentionTest, AJobOfAForgottenNameHasNewEpochs) {
  harness_.Connect("w");
  EXPECT_EQ(harness_.job(Run("a")).history.epoch, Epoch(1));
  for (const char* name : {"b", "c"}) Cancelled(name);
  EXPECT_EQ(Jobs(), (Names{"b", "c"}));
  // A worker that has done the old one's epoch does this one's too.
  const JobId again = Run("a");
  EXPECT_EQ(again, JobId("a"));
  EXPECT_EQ(harness_.job(again).history.epoch, Epoch(2));
  EXPECT_EQ(DescribeJob(harness_.job(again)).recoveries(), 0u);
}

TEST_F(RetentionTest, APlanForAForgottenJobIsNotTheNewOnes) {
  harness_.Connect("w");
  const JobId job = harness_.Submit(SmallSpec("a"));
  const StartPlanning old = *harness_.planning;
  harness_.Feed(CancelRequested{1, job});
  for (const char* name : {"b", "c"}) Cancelled(name);
  EXPECT_EQ(harness_.Submit(SmallSpec("a")), job);
  EXPECT_FALSE(harness_.Feed(PlanReady{job, old.attempt, SmallPlan(1), ""}));
  EXPECT_EQ(harness_.job(job).progress.phase, Phase::kPlanning);
}

TEST_F(RetentionTest, NumbersOfANameGoOnAsLongAsOneOfThemIsKept) {
  for (int i = 0; i < 4; ++i) Cancelled("a");
  EXPECT_EQ(Jobs(), (Names{"a-3", "a-4"}));
  EXPECT_EQ(Cancelled("a"), JobId("a-5"));
}

TEST_F(RetentionTest, ASubmissionIsForgottenWithItsJob) {
  const JobId job = harness_.Submit(SmallSpec("a"), "once");
  harness_.Feed(CancelRequested{1, job});
  Cancelled("b");
  EXPECT_EQ(harness_.Submit(SmallSpec("a"), "once"), job);
  EXPECT_EQ(harness_.job(job).history.state, v1::JOB_STATE_CANCELLED);
  Cancelled("c");
  harness_.Submit(SmallSpec("a"), "once");
  EXPECT_EQ(harness_.job(job).history.state, v1::JOB_STATE_QUEUED);
}

TEST_F(RetentionTest, WhoAsksForAForgottenJobIsToldThatItMayHaveBeen) {
  for (const char* name : {"a", "b", "c"}) Cancelled(name);
  harness_.Feed(CancelRequested{1, JobId("a")});
  EXPECT_EQ(harness_.answer->status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(harness_.answer->status().message()),
              HasSubstr("there is no job a; if there was, it has been forgotten: the 2 newest jobs"));
}

}  // namespace
}  // namespace stagecoach
