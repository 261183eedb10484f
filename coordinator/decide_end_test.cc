#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "coordinator/decide.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using Message = v1::CoordinatorMessage;
using testing::HasSubstr;
using testing::StartsWith;

std::string PhaseName(Phase phase) {
  static const char* const kNames[] = {
      "None",       "Planning", "Reattaching", "Replanning",      "Preparing",     "ConnectingPeers", "Training",
      "Evaluating", "Paused",   "Finishing",   "MakingDirectory", "WritingShards", "WritingManifest", "Aborting"};
  return kNames[static_cast<int>(phase)];
}

// A job on workers a, b and c that has just come into the phase.
class DecideEndTest : public testing::TestWithParam<Phase> {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name);
    job_ = harness_.Submit(SmallSpec());
  }
  void ReachPhase(Phase phase) {
    if (phase == Phase::kPlanning) return;
    // An evaluation after the last step would let every update end before it.
    harness_.FinishPlanning(SmallPlan(3, /*num_validation_samples=*/phase == Phase::kFinishing ? 0 : 4));
    harness_.RunUntil([&] { return record().progress.phase == phase; });
    ASSERT_EQ(record().progress.phase, phase);
  }
  void TrainUntil(uint64_t step) {
    ReachPhase(Phase::kPreparingStages);
    harness_.RunUntil(
        [&] { return record().history.last_commit.step() == step && record().progress.phase == Phase::kTraining; });
  }
  const JobRecord& record() const { return harness_.job(job_); }
  v1::WorkerMessage Failure(const std::string& worker, absl::StatusCode code, const std::string& message) {
    v1::WorkerMessage said = harness_.Fenced(worker, job_);
    said.mutable_failure()->set_code(static_cast<int>(code));
    said.mutable_failure()->set_message(message);
    said.mutable_failure()->set_step(record().history.last_commit.step() + 1);
    said.mutable_failure()->set_action("1F2");
    return said;
  }
  bool WasAborted(const std::string& worker) const { return !harness_.Sent(worker, Message::kAbort).empty(); }
  bool WasReleased(const std::string& worker) const { return !harness_.Sent(worker, Message::kRelease).empty(); }
  absl::Status Ask(const Input& request) {
    harness_.answer.reset();
    harness_.Feed(request);
    return harness_.answer->status();
  }
  void Cancel() { ASSERT_TRUE(Ask(CancelRequested{9, job_}).ok()) << harness_.answer->status(); }

  DecideHarness harness_;
  JobId job_;
};

INSTANTIATE_TEST_SUITE_P(Phases, DecideEndTest,
                         testing::Values(Phase::kPreparingStages, Phase::kConnectingPeers, Phase::kTraining,
                                         Phase::kEvaluating, Phase::kFinishing, Phase::kMakingDirectory,
                                         Phase::kWritingShards, Phase::kWritingManifest),
                         [](const auto& test) { return PhaseName(test.param); });

TEST_P(DecideEndTest, AFailureInAnyPhaseFailsTheJobWithItsCause) {
  ReachPhase(GetParam());
  const v1::CommitRecord commit = record().history.last_commit;
  EXPECT_TRUE(harness_.Say("b", Failure("b", absl::StatusCode::kDataLoss, "file.txt shrank")));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.reason, kReasonWorkerFailed);
  EXPECT_THAT(record().history.message, StartsWith("worker b (rank 1, stage 1) failed in step "));
  EXPECT_THAT(record().history.message, HasSubstr("at 1F2: DATA_LOSS: file.txt shrank"));
  EXPECT_FALSE(WasAborted("b"));
  for (const char* other : {"a", "c"}) {
    ASSERT_TRUE(WasAborted(other));
    EXPECT_EQ(harness_.Sent(other, Message::kAbort)[0].abort().last_commit().step(), commit.step());
  }
  for (const char* worker : {"a", "b", "c"}) EXPECT_TRUE(WasReleased(worker));
  EXPECT_EQ(record().progress.members, nullptr);
}

TEST_P(DecideEndTest, ALossInAnyPhaseFailsTheJobWithItsCause) {
  ReachPhase(GetParam());
  harness_.Lose("c", absl::UnavailableError("stream reset"));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.reason, kReasonWorkerLost);
  EXPECT_THAT(record().history.message, StartsWith("worker c (rank 2, stage 2) was lost"));
  EXPECT_THAT(record().history.message, HasSubstr("stream reset"));
  EXPECT_FALSE(WasAborted("c"));
  EXPECT_FALSE(WasReleased("c"));
  for (const char* survivor : {"a", "b"}) {
    EXPECT_TRUE(WasAborted(survivor));
    EXPECT_TRUE(WasReleased(survivor));
    EXPECT_FALSE(harness_.state.workers().at(WorkerId(survivor)).job.has_value());
  }
}

TEST_P(DecideEndTest, WhatOneWorkerSawOfAnothersFailureIsNotTheCause) {
  ReachPhase(GetParam());
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "peer is gone"));
  EXPECT_EQ(record().progress.phase, Phase::kAborting);
  EXPECT_TRUE(WasAborted("b"));
  EXPECT_TRUE(WasAborted("c"));
  harness_.Say("c", Failure("c", absl::StatusCode::kAborted, "aborted"));
  EXPECT_FALSE(HasEnded(record().history.state));
  harness_.Say("b", Failure("b", absl::StatusCode::kInternal, "out of registers"));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(record().history.message, HasSubstr("out of registers"));
  EXPECT_EQ(harness_.Sent("b", Message::kAbort).size(), 1u);
}

TEST_P(DecideEndTest, TheLossThatOthersSawIsTheCause) {
  ReachPhase(GetParam());
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "peer is gone"));
  harness_.Lose("b");
  EXPECT_EQ(record().history.reason, kReasonWorkerLost);
  EXPECT_THAT(record().history.message, StartsWith("worker b"));
}

TEST_P(DecideEndTest, ACancelInAnyPhaseEndsTheJobWithWhatItHas) {
  ReachPhase(GetParam());
  const uint64_t step = record().history.last_commit.step();
  const bool trained = step >= record().history.spec->training().steps();  // then there is nothing left to cancel
  const bool running = step > 0 || GetParam() == Phase::kTraining;
  if (trained) {
    EXPECT_EQ(Ask(CancelRequested{9, job_}).code(), absl::StatusCode::kFailedPrecondition);
  } else {
    Cancel();
  }
  EXPECT_EQ(record().history.state, trained   ? v1::JOB_STATE_RUNNING
                                    : running ? v1::JOB_STATE_CANCELLING
                                              : v1::JOB_STATE_CANCELLED);
  if (running && !trained) Cancel();  // asking twice is the same
  harness_.RunUntilQuiet();
  EXPECT_EQ(record().history.state, trained ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(record().history.checkpoints.size(), running ? 1u : 0u);
  for (const char* worker : {"a", "b", "c"}) EXPECT_TRUE(WasReleased(worker));
}

TEST_F(DecideEndTest, ACancelledQueuedJobNeverStarts) {
  const JobId waiting = harness_.Submit(SmallSpec("waiting"));
  harness_.Feed(CancelRequested{9, waiting});
  EXPECT_EQ(harness_.job(waiting).history.state, v1::JOB_STATE_CANCELLED);
}

TEST_F(DecideEndTest, ACancelWhilePlanningFreesTheWorkers) {
  Cancel();
  EXPECT_EQ(record().history.state, v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(harness_.state.workers().at(WorkerId("a")).job.has_value());
  EXPECT_FALSE(harness_.FinishPlanning(SmallPlan(3)));
}

TEST_F(DecideEndTest, ACancelFinishesTheStepInFlight) {
  TrainUntil(1);
  Cancel();
  EXPECT_EQ(record().history.last_commit.step(), 1u);
  harness_.RunUntilQuiet();
  EXPECT_EQ(record().history.state, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(record().history.last_commit.step(), 2u);
  ASSERT_EQ(record().history.checkpoints.size(), 1u);
  EXPECT_EQ(record().history.checkpoints[0].step(), 2u);
  EXPECT_TRUE(harness_.Sent("a", Message::kCommitStep)[1].commit_step().want_digests());
  EXPECT_FALSE(harness_.events[1].validation_follows());  // not worth the wait
}

TEST_F(DecideEndTest, ACancelEndsAnEvaluationAfterTheRunUnderWay) {
  harness_.FinishPlanning(SmallPlan(3, /*num_validation_samples=*/9));  // three runs
  harness_.RunUntil([&] { return record().progress.phase == Phase::kEvaluating; });
  Cancel();
  harness_.RunUntilQuiet();
  EXPECT_EQ(record().history.state, v1::JOB_STATE_CANCELLED);
  int evaluations = 0;
  for (const Message& message : harness_.Sent("a", Message::kRunStep)) evaluations += message.run_step().evaluation();
  EXPECT_EQ(evaluations, 1);
  EXPECT_TRUE(harness_.validation_losses.empty());
}

TEST_F(DecideEndTest, CancelOfAnEndedOrUnknownJobIsRefused) {
  ReachPhase(Phase::kPreparingStages);
  harness_.RunUntilQuiet();
  harness_.Feed(CancelRequested{9, job_});
  EXPECT_EQ(harness_.answer->status().code(), absl::StatusCode::kFailedPrecondition);
  harness_.Feed(CancelRequested{9, JobId("nobody")});
  EXPECT_EQ(harness_.answer->status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DecideEndTest, WhenNoCauseIsReportedTheFirstConsequenceStands) {
  ReachPhase(Phase::kTraining);
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "first"));
  harness_.Step("b");  // votes; the abort is behind the run
  harness_.RunUntilQuiet();
  EXPECT_FALSE(HasEnded(record().history.state));  // a session may have broken
  harness_.Pass(FleetOptions().suspect_grace);
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(record().history.message, HasSubstr("first"));
}

TEST_F(DecideEndTest, TheWaitForTheCauseIsBounded) {
  ReachPhase(Phase::kTraining);
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "first"));
  harness_.Pass(FleetOptions().root_cause_grace - absl::Milliseconds(1));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_RUNNING);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(record().history.message, HasSubstr("first"));
  EXPECT_TRUE(WasReleased("b"));
}

// c's host is cut off: a sees the transfers break before the lease is over.
TEST_F(DecideEndTest, WhoHasFallenSilentIsWaitedForBeforeAWitnessIsBlamed) {
  ReachPhase(Phase::kTraining);
  harness_.silent.insert("c");
  harness_.Pass(absl::Milliseconds(300));
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "the peer is gone"));
  harness_.Step("b");  // votes; the abort is behind the run
  harness_.Step("b");
  harness_.Pass(FleetOptions().root_cause_grace);
  EXPECT_FALSE(HasEnded(record().history.state));
  harness_.Pass(FleetOptions().lease - FleetOptions().root_cause_grace);
  EXPECT_EQ(record().history.reason, kReasonWorkerLost);
  EXPECT_THAT(record().history.message, StartsWith("worker c"));
}

TEST_F(DecideEndTest, WhoIsHeardAgainIsNotWaitedForTwice) {
  ReachPhase(Phase::kTraining);
  harness_.silent.insert("c");
  harness_.Pass(absl::Milliseconds(300));
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "the peer is gone"));
  harness_.Pass(FleetOptions().root_cause_grace);
  EXPECT_FALSE(HasEnded(record().history.state));
  harness_.silent.erase("c");
  harness_.Pass(FleetOptions().lease - FleetOptions().root_cause_grace);
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(record().history.message, HasSubstr("the peer is gone"));
}

TEST_F(DecideEndTest, ACancelDoesNotHideAFailure) {
  TrainUntil(1);
  harness_.Say("a", Failure("a", absl::StatusCode::kUnavailable, "peer is gone"));
  EXPECT_EQ(Ask(CancelRequested{9, job_}).code(), absl::StatusCode::kFailedPrecondition);
  harness_.Say("b", Failure("b", absl::StatusCode::kInternal, "the cause"));
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
}

TEST_F(DecideEndTest, ACommittedStepIsPublishedThoughItsEvaluationFails) {
  ReachPhase(Phase::kEvaluating);
  harness_.Say("a", Failure("a", absl::StatusCode::kInternal, "broken"));
  ASSERT_EQ(harness_.events.size(), 2u);
  EXPECT_EQ(harness_.events[1].step(), 2u);
  EXPECT_TRUE(harness_.validation_losses.empty());
}

TEST_F(DecideEndTest, AVoteThatCannotBeCountedFailsTheJob) {
  harness_.workers["c"]->edit_vote = [](v1::StepPrepared& vote) { vote.clear_loss_parts(); };
  ReachPhase(Phase::kTraining);
  harness_.RunUntilQuiet();
  EXPECT_EQ(record().history.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(record().history.message, "no stage reported the loss of micro-batch 0");
  EXPECT_EQ(record().history.last_commit.step(), 0u);
}

TEST_F(DecideEndTest, SurvivorsRunTheNextJobInAnEpochOfItsOwn) {
  ReachPhase(Phase::kTraining);
  harness_.Lose("a");
  const JobId next = harness_.Submit(SmallSpec("next"));
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  EXPECT_EQ(harness_.job(next).history.state, v1::JOB_STATE_SUCCEEDED);
}

}  // namespace
}  // namespace stagecoach
