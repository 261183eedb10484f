#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decide.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/recovery_test.h"

namespace stagecoach {
namespace {

using Message = v1::CoordinatorMessage;
using testing::HasSubstr;

TEST_F(RecoveryTest, ACoordinatorMayDieAfterAnyMessageAndTheBitsAreTheSame) {
  int restarts = 0;
  for (int at = 0;; ++at) {
    harness_ = DecideHarness();
    Begin(harness_);
    int steps = 0;
    harness_.RunUntil([&] { return steps++ == at; });
    if (steps <= at) break;
    if (state() == v1::JOB_STATE_PREPARING || HasEnded(state())) continue;
    SCOPED_TRACE(absl::StrCat("after ", at, " messages, step ", step()));
    ++restarts;
    harness_.Restart();
    EXPECT_EQ(state(), v1::JOB_STATE_RECOVERING);
    DialAll();
    ExpectTheSameEnd();
  }
  EXPECT_GT(restarts, 30);
}

TEST_F(RecoveryTest, EpochIsNewAndMembersPartitionAndScheduleAreTheSame) {
  ReachStep(1);
  const v1::Placement before = *record().history.placement;
  const auto plan = record().history.plan;
  harness_.Restart();
  EXPECT_THAT(record().history.message, HasSubstr("waiting for 3 worker(s)"));
  harness_.Dial("a");
  harness_.Dial("c");
  EXPECT_FALSE(harness_.planning.has_value());
  harness_.Dial("b");
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->same_cut_as->SerializeAsString(), plan->SerializeAsString());
  EXPECT_EQ(harness_.planning->order, nullptr);  // it follows from the schedule
  EXPECT_EQ(harness_.planning->workers[1].memory_bytes, uint64_t{1} << 30);
  harness_.FinishPlanning(SmallPlan(3, 4));
  EXPECT_EQ(record().history.epoch, Epoch(2));
  ASSERT_EQ(record().history.placement->members_size(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(record().history.placement->members(rank).SerializeAsString(), before.members(rank).SerializeAsString());
  }
  EXPECT_EQ(harness_.Sent("b", Message::kAssignStages).back().assign_stages().last_commit().step(), 1u);
  harness_.RunUntil([&] { return phase() == Phase::kTraining; });
  EXPECT_EQ(harness_.Sent("b", Message::kRunStep).back().run_step().step(), 2u);
  EXPECT_EQ(DescribeJob(record()).recoveries(), 1u);
}

// Three stages in an order that follows from no schedule's name.
std::shared_ptr<const JobPlan> PlanWithOrder() {
  std::shared_ptr<JobPlan> plan = SmallPlan(3, /*num_validation_samples=*/4);
  plan->planned.plan.set_schedule("auto");
  v1::ComputeTable order;
  order.set_schedule("auto");
  order.set_num_stages(3);
  order.add_workers()->add_actions()->set_kind(v1::ACTION_KIND_FORWARD);
  plan->planned.order = std::move(order);
  return plan;
}

TEST_F(RecoveryTest, AnOrderThatWasSearchedIsInTheJournalUntilTheEnd) {
  harness_ = DecideHarness();
  Begin(harness_, PlanWithOrder());
  const std::string order = PlanWithOrder()->planned.order->SerializeAsString();
  ReachStep(1);
  ASSERT_NE(record().history.order, nullptr);
  EXPECT_EQ(record().history.order->SerializeAsString(), order);
  harness_.Restart();
  EXPECT_EQ(record().history.order->SerializeAsString(), order);
  DialAll();
  ASSERT_TRUE(harness_.planning.has_value());
  ASSERT_NE(harness_.planning->order, nullptr);
  EXPECT_EQ(harness_.planning->order->SerializeAsString(), order);
  harness_.FinishPlanning(PlanWithOrder());
  EXPECT_EQ(record().history.epoch, Epoch(2));
  int num_orders = 0;
  for (const v1::JournalEntry& entry : harness_.journal) {
    if (!entry.has_epoch_started()) continue;
    EXPECT_EQ(entry.epoch_started().order().SerializeAsString(), order);
    ++num_orders;
  }
  EXPECT_EQ(num_orders, 2);
  ExpectTheSameEnd();
  EXPECT_EQ(record().history.order, nullptr);
}

// The verdict on step 2 was sent to one worker, and the journal lost it with the power.
TEST_F(RecoveryTest, AStepThatOneWorkerKnowsIsCommittedIsTakenOver) {
  ReachStep(1);
  harness_.RunUntil([&] { return step() == 2; });
  harness_.Step("b");  // applies it
  ASSERT_TRUE(harness_.journal.back().has_step_committed());
  const v1::CommitRecord lost = harness_.journal.back().step_committed().record();
  harness_.journal.pop_back();
  harness_.events.pop_back();
  harness_.Restart();
  EXPECT_EQ(step(), 1u);
  harness_.Dial("a");
  EXPECT_EQ(step(), 1u);
  harness_.Dial("b");
  EXPECT_EQ(step(), 2u);
  EXPECT_EQ(record().history.last_commit.SerializeAsString(), lost.SerializeAsString());
  harness_.Dial("c");
  ExpectTheSameEnd();
}

// The power took the commit of the first step; the job was cancelled before anybody had dialled who knows of it, and
// the coordinator died when it had written that the epoch is over, and not yet that the job is.
TEST_F(RecoveryTest, AStepIsTakenOverAlthoughTheEpochHasEndedSince) {
  harness_.RunUntil([&] { return step() == 1; });
  harness_.Step("b");  // applies it
  ASSERT_TRUE(harness_.journal.back().has_step_committed());
  harness_.journal.pop_back();
  harness_.events.pop_back();
  harness_.Restart();
  harness_.Feed(CancelRequested{1, job_});
  ASSERT_EQ(state(), v1::JOB_STATE_CANCELLED);
  harness_.journal.pop_back();
  ASSERT_TRUE(harness_.journal.back().has_epoch_ended());
  harness_.Restart();
  ASSERT_EQ(state(), v1::JOB_STATE_RECOVERING);
  DialAll();
  EXPECT_EQ(step(), 1u);
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, NoRecordIsTakenOverThatCannotBeTheJobs) {
  const std::vector<std::function<void(v1::HeldJob&)>> lies = {
      [](v1::HeldJob& held) { held.set_job("another"); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_step(5); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_step(~uint64_t{0}); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_verdict(v1::VERDICT_UNSPECIFIED); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_num_updates(4); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_next_loss_scale(std::nan("")); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_next_loss_scale(0); },
      [](v1::HeldJob& held) { held.mutable_last_commit()->set_learning_rate(std::nan("")); },
  };
  for (size_t i = 0; i <= lies.size(); ++i) {
    harness_ = DecideHarness();
    Begin(harness_);
    ReachStep(2);
    v1::Hello hello = harness_.workers.at("a")->hello();
    *hello.mutable_held()->mutable_last_commit() = record().history.last_commit;
    hello.mutable_held()->mutable_last_commit()->set_step(3);
    hello.mutable_held()->mutable_last_commit()->set_num_updates(3);
    harness_.Restart();
    if (i < lies.size()) lies[i](*hello.mutable_held());
    harness_.Feed(WorkerConnected{WorkerId("a"), Incarnation(1), SessionId(1000), hello});
    EXPECT_EQ(step(), i < lies.size() ? 2u : 3u) << i;  // the last one does not lie
  }
}

TEST_F(RecoveryTest, AMemberThatDoesNotComeBackInTimeIsTheCause) {
  ReachStep(1);
  harness_.Restart();
  harness_.Dial("a");
  harness_.Dial("c");
  harness_.Pass(FleetOptions().reattach_timeout - absl::Milliseconds(1));
  EXPECT_EQ(state(), v1::JOB_STATE_RECOVERING);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.reason, kReasonWorkerLost);
  EXPECT_THAT(record().history.message,
              HasSubstr("worker b (rank 1, stage 1) was lost: it has not dialled again in 10s"));
  EXPECT_EQ(record().history.root_cause->worker(), "b");
  EXPECT_FALSE(harness_.Sent("a", Message::kRelease).empty());
  // It comes after all, and is told that the job goes on without it.
  harness_.Dial("b");
  EXPECT_EQ(harness_.Sent("b", Message::kAbort).back().fence().epoch(), 2u);
  EXPECT_EQ(harness_.Sent("b", Message::kRelease).back().fence().job(), "job");
}

TEST_F(RecoveryTest, AMemberThatComesBackAsAnotherProcessIsLost) {
  ReachStep(1);
  harness_.Restart();
  harness_.Dial("a");
  harness_.Connect("b", /*incarnation=*/2);
  EXPECT_EQ(state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.root_cause->worker(), "b");
  EXPECT_EQ(record().history.root_cause->incarnation(), 1u);
}

TEST_F(RecoveryTest, AMemberThatComesBackWithoutItsStateIsLost) {
  ReachStep(2);
  harness_.Restart();
  harness_.Connect("b", /*incarnation=*/1);  // the state was dropped: it was an orphan for too long
  harness_.Dial("a");
  harness_.Dial("c");
  EXPECT_EQ(state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(record().history.message, HasSubstr("worker b (rank 1, stage 1) was lost: it has come back without"));
}

TEST_F(RecoveryTest, ACoordinatorMayDieWhileItRecovers) {
  ReachStep(2);
  for (int i = 0; i < 3; ++i) {
    harness_.Restart();
    DialAll();
    harness_.FinishPlanning(SmallPlan(3, 4));
    harness_.Step("b");  // knows the new epoch; the others do not
  }
  EXPECT_EQ(record().history.epoch, Epoch(4));
  harness_.Restart();
  DialAll();
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, AJobWithoutAnEpochGoesBackToTheQueue) {
  ReachPhase(Phase::kConnectingPeers);
  harness_.Restart();
  EXPECT_EQ(state(), v1::JOB_STATE_QUEUED);
  DialAll();
  for (const char* name : kWorkers) {
    EXPECT_EQ(harness_.Sent(name, Message::kRelease).back().fence().epoch(), 2u);
    while (harness_.Step(name)) {
    }
  }
  ASSERT_TRUE(harness_.planning.has_value());
  EXPECT_EQ(harness_.planning->same_cut_as, nullptr);
  harness_.FinishPlanning(SmallPlan(3, 4));
  EXPECT_EQ(record().history.epoch, Epoch(3));
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, APausedJobRecoversAndStaysPaused) {
  ReachStep(1);
  harness_.Feed(PauseRequested{5, job_});
  harness_.Restart();
  EXPECT_EQ(state(), v1::JOB_STATE_PAUSED);
  DialAll();
  harness_.FinishPlanning(SmallPlan(3, 4));
  harness_.RunUntilQuiet();
  EXPECT_EQ(state(), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(phase(), Phase::kPaused);
  EXPECT_EQ(step(), 1u);
  harness_.Feed(ResumeRequested{6, job_});
  EXPECT_TRUE(harness_.answer->ok());
  EXPECT_EQ(state(), v1::JOB_STATE_RUNNING);
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, AJobMayBePausedAndResumedWhileItRecovers) {
  ReachStep(1);
  harness_.Restart();
  harness_.Feed(PauseRequested{5, job_});
  EXPECT_EQ(state(), v1::JOB_STATE_PAUSED);
  harness_.Feed(ResumeRequested{6, job_});
  EXPECT_EQ(state(), v1::JOB_STATE_RECOVERING);
  DialAll();
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, ACancelledJobRecoversToWriteItsCheckpoint) {
  ReachStep(2);
  harness_.Feed(CancelRequested{5, job_});
  harness_.Restart();
  EXPECT_EQ(state(), v1::JOB_STATE_CANCELLING);
  DialAll();
  harness_.FinishPlanning(SmallPlan(3, 4));
  harness_.RunUntilQuiet();
  EXPECT_EQ(state(), v1::JOB_STATE_CANCELLED);
  ASSERT_EQ(record().history.checkpoints.size(), 1u);
  EXPECT_EQ(record().history.checkpoints[0].step(), 2u);
}

TEST_F(RecoveryTest, AJobMayBeCancelledWhileItRecovers) {
  ReachStep(2);
  harness_.Restart();
  harness_.Feed(CancelRequested{5, job_});
  EXPECT_EQ(state(), v1::JOB_STATE_CANCELLING);
  DialAll();
  harness_.FinishPlanning(SmallPlan(3, 4));
  harness_.RunUntilQuiet();
  EXPECT_EQ(state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(RecoveryTest, TheFinalCheckpointAsksForDigestsAgain) {
  ReachPhase(Phase::kWritingShards);
  harness_.Restart();
  DialAll();
  harness_.FinishPlanning(SmallPlan(3, 4));
  ReachPhase(Phase::kFinishing);
  const Message commit = harness_.Sent("a", Message::kCommitStep).back();
  EXPECT_EQ(commit.commit_step().record().step(), 4u);
  EXPECT_TRUE(commit.commit_step().want_digests());
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, AJobWhoseEpochHadEndedBeginsAnother) {
  ReachStep(1);
  v1::WorkerMessage failure = harness_.Fenced("a", job_);
  failure.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failure.mutable_failure()->set_message("peer is gone");
  harness_.Say("a", failure);
  ASSERT_EQ(phase(), Phase::kAborting);
  harness_.Restart();
  EXPECT_EQ(phase(), Phase::kReattaching);
  DialAll();
  ExpectTheSameEnd();
  EXPECT_EQ(record().history.epoch, Epoch(3));
}

TEST_F(RecoveryTest, WhoeverEndedTheEpochBeforeARestartIsTheCause) {
  ReachStep(1);
  v1::WorkerMessage failure = harness_.Fenced("a", job_);
  failure.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  harness_.Say("a", failure);
  harness_.Restart();
  harness_.Dial("a");
  harness_.Dial("c");
  harness_.Pass(FleetOptions().reattach_timeout);
  EXPECT_EQ(state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.reason, kReasonWorkerLost);
  EXPECT_EQ(record().history.root_cause->worker(), "b");
}

TEST_F(RecoveryTest, APlanThatIsCutOtherwiseFailsTheJob) {
  ReachStep(1);
  harness_.Restart();
  DialAll();
  auto plan = SmallPlan(3, 4);
  plan->planned.plan.mutable_stages(1)->set_first_layer(0);
  harness_.FinishPlanning(plan);
  EXPECT_EQ(state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.reason, kReasonPlanningFailed);
}

TEST_F(RecoveryTest, DataThatHasChangedFailsTheJob) {
  const CorpusIdentity before{.bytes = 385, .digest = "aa"}, after{.bytes = 385, .digest = "bb"};
  DecideHarness harness;
  for (const char* name : kWorkers) harness.Connect(name);
  harness.Submit(SmallSpec());
  const auto plan_with = [](const CorpusIdentity& data) {
    auto plan = SmallPlan(3);
    plan->data = data;
    return plan;
  };
  const auto restart = [&] {
    harness.Restart();
    for (const char* name : kWorkers) harness.Dial(name);
  };
  harness.FinishPlanning(plan_with(before));
  harness.RunUntil([&] { return harness.job(job_).history.last_commit.step() == 1; });
  restart();
  harness.FinishPlanning(plan_with(before));
  harness.RunUntil([&] { return harness.job(job_).history.last_commit.step() == 2; });
  EXPECT_EQ(harness.job(job_).history.last_commit.step(), 2u);
  restart();
  harness.FinishPlanning(plan_with(after));
  EXPECT_EQ(harness.job(job_).history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(harness.job(job_).history.reason, kReasonDataChanged);
  EXPECT_THAT(harness.job(job_).history.message,
              HasSubstr("385 bytes with digest aa then, 385 bytes with digest bb now"));
}

TEST_F(RecoveryTest, MessagesOfTheTermBeforeAreIgnored) {
  ReachStep(1);
  const v1::WorkerMessage applied = *harness_.workers["a"]->Answer(harness_.inbox["a"].front());
  harness_.Restart();
  DialAll();
  EXPECT_FALSE(harness_.Say("a", applied));
}

// Without the lease that c had of the coordinator before, it has left its peers alone.
TEST_F(RecoveryTest, WhatBecomesOfTheOldEpochMeanwhileIsIgnored) {
  ReachStep(1);
  harness_.Restart();
  harness_.Dial("a");
  harness_.Dial("b");
  v1::WorkerMessage failed = harness_.Fenced("b", job_);
  failed.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failed.mutable_failure()->set_message("the peer is gone");
  EXPECT_FALSE(harness_.Say("b", failed));
  harness_.Dial("c");
  EXPECT_FALSE(harness_.Say("b", failed));
  ExpectTheSameEnd();
}

}  // namespace
}  // namespace stagecoach
