#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/protocol_version.h"
#include "coordinator/deadlines.h"
#include "coordinator/decide.h"
#include "coordinator/descriptions.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/testing/decide_harness.h"

namespace stagecoach {
namespace {

using Message = v1::CoordinatorMessage;
using testing::HasSubstr;

// Sessions, leases, and what the loss of a worker means for its job.
class DecideWorkerTest : public testing::Test {
 protected:
  // On a, b and c; its first RunStep has just been sent.
  JobId StartJob(const v1::JobSpec& spec = SmallSpec()) {
    for (const char* name : {"a", "b", "c"}) harness_.Connect(name);
    const JobId job = harness_.Submit(spec);
    harness_.FinishPlanning(SmallPlan(3));
    harness_.RunUntil([&] { return harness_.job(job).progress.phase == Phase::kTraining; });
    return job;
  }
  const JobHistory& history(const JobId& job) const { return harness_.job(job).history; }
  v1::WorkerDescription Describe(const std::string& name) const {
    const v1::ListWorkersResponse response = ListWorkers(harness_.state, harness_.now);
    for (const v1::WorkerDescription& worker : response.workers()) {
      if (worker.name() == name) return worker;
    }
    return {};
  }
  void Leave(const std::string& name) {
    v1::WorkerMessage message;
    message.mutable_fence()->set_incarnation(harness_.workers.at(name)->incarnation().value());
    message.mutable_fence()->set_coordinator_term(1);
    message.mutable_leaving()->set_reason("SIGTERM");
    EXPECT_TRUE(harness_.Say(name, message));
  }
  v1::RunState At(uint64_t step, uint64_t instruction, const std::string& action) {
    v1::RunState run;
    run.set_run(step);
    run.set_step(step);
    run.set_instruction(instruction);
    run.set_action(action);
    return run;
  }

  DecideHarness harness_;
};

TEST_F(DecideWorkerTest, WelcomeSaysHowLongTheLeaseIs) {
  harness_.Connect("a");
  const v1::Welcome welcome = harness_.Sent("a", Message::kWelcome).at(0).welcome();
  EXPECT_EQ(welcome.lease().seconds(), 3);
  EXPECT_EQ(welcome.heartbeat_interval().nanos(), 250'000'000);
  EXPECT_EQ(welcome.orphan_timeout().seconds(), 600);
  EXPECT_EQ(welcome.protocol_version(), kProtocolVersion);

  FleetOptions options;
  options.lease = absl::InfiniteDuration();
  harness_.state = State(options);
  harness_.Connect("b");
  EXPECT_FALSE(harness_.Sent("b", Message::kWelcome).at(0).welcome().has_lease());
  harness_.silent.insert("b");
  harness_.Pass(absl::Hours(1));
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_IDLE);
}

TEST_F(DecideWorkerTest, AHeartbeatIsAnsweredAndRenewsTheLease) {
  harness_.Connect("a");
  harness_.Pass(absl::Seconds(20));
  EXPECT_EQ(Describe("a").state(), v1::WORKER_STATE_IDLE);
  EXPECT_LE(Describe("a").last_seen_seconds(), 0.25);
  EXPECT_EQ(harness_.Sent("a", Message::kHeartbeatReply).back().heartbeat_reply().sequence(), 1u);
  EXPECT_EQ(harness_.Sent("a", Message::kHeartbeatReply).back().fence().coordinator_term(), 1u);
}

TEST_F(DecideWorkerTest, AWorkerWhoseLeaseIsOverIsLostAndItsSessionEnds) {
  const JobId job = StartJob();
  harness_.Feed(PauseRequested{1, job});
  harness_.RunUntilQuiet();
  const SessionId session = harness_.sessions.at("b");
  harness_.Pass(absl::Seconds(1));
  harness_.silent.insert("b");
  const absl::Duration heard = harness_.worker("b").last_seen;
  harness_.Pass(heard + FleetOptions().lease - absl::Milliseconds(1) - harness_.now);
  EXPECT_EQ(history(job).state, v1::JOB_STATE_PAUSED);
  EXPECT_LE(NextDeadline(harness_.state), heard + FleetOptions().lease);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history(job).reason, kReasonWorkerLost);
  EXPECT_EQ(history(job).root_cause->worker(), "b");
  EXPECT_EQ(history(job).root_cause->code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(harness_.ended_sessions.at(session).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_LOST);
  EXPECT_THAT(Describe("b").message(), HasSubstr("nothing was heard of it for 3s"));
}

TEST_F(DecideWorkerTest, NothingAZombieSaysIsAccepted) {
  const JobId job = StartJob();
  const v1::WorkerMessage vote = *harness_.workers["b"]->Answer(harness_.inbox["b"].front());
  harness_.silent.insert("b");
  harness_.Step("a");
  harness_.Step("c");
  harness_.Pass(absl::Seconds(4));
  ASSERT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_FALSE(harness_.Say("b", vote));
  // It dials, and says that it still holds the job.
  harness_.Dial("b");
  EXPECT_FALSE(harness_.Say("b", vote));
  const Message abort = harness_.Sent("b", Message::kAbort).back();
  EXPECT_EQ(abort.fence().job(), job.value());
  EXPECT_EQ(abort.fence().epoch(), 2u);
  EXPECT_EQ(harness_.Sent("b", Message::kRelease).back().fence().epoch(), 2u);
  // It is no use for another job before it has given up this one.
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_BUSY);
  const JobId next = harness_.Submit(SmallSpec("next"));
  EXPECT_EQ(harness_.job(next).progress.members->size(), 2u);
  while (harness_.Step("b")) {
  }
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_IDLE);
}

TEST_F(DecideWorkerTest, ABrokenSessionIsALossWhenTheGraceIsOver) {
  const JobId job = StartJob();
  harness_.Break("c", absl::UnavailableError("connection reset by peer"));
  EXPECT_EQ(Describe("c").state(), v1::WORKER_STATE_SUSPECT);
  harness_.Pass(absl::Milliseconds(99));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
  harness_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(history(job).message, HasSubstr("connection reset by peer"));
  EXPECT_EQ(Describe("c").state(), v1::WORKER_STATE_LOST);
}

TEST_F(DecideWorkerTest, StepAndActionOfALostWorkerAreOfItsLastHeartbeat) {
  const JobId job = StartJob();
  harness_.runs["b"] = At(1, 7, "1F2");
  harness_.Pass(absl::Milliseconds(300));
  harness_.Lose("b");
  const v1::RootCause& cause = *history(job).root_cause;
  EXPECT_EQ(cause.worker(), "b");
  EXPECT_EQ(cause.incarnation(), 1u);
  EXPECT_EQ(cause.worker_rank(), 1u);
  ASSERT_EQ(cause.stages_size(), 1);
  EXPECT_EQ(cause.stages(0), 1u);
  EXPECT_EQ(cause.step(), 1u);
  EXPECT_EQ(cause.action(), "1F2");
  EXPECT_THAT(history(job).message, HasSubstr("worker b (rank 1, stage 1) was lost in step 1 at 1F2: "));
  EXPECT_EQ(StatusOf(harness_.job(job)).root_cause().action(), "1F2");
}

TEST_F(DecideWorkerTest, WithoutAHeartbeatTheStepInFlightIsNamed) {
  const JobId job = StartJob();
  harness_.Lose("b");
  EXPECT_EQ(history(job).root_cause->step(), 1u);
  EXPECT_EQ(history(job).root_cause->action(), "");
}

TEST_F(DecideWorkerTest, ALostWorkerIsRememberedForAWhile) {
  harness_.Connect("a");
  harness_.Lose("a");
  harness_.Pass(FleetOptions().remember_lost - absl::Seconds(1));
  EXPECT_EQ(Describe("a").state(), v1::WORKER_STATE_LOST);
  harness_.Pass(absl::Seconds(1));
  EXPECT_TRUE(harness_.state.workers().empty());
}

TEST_F(DecideWorkerTest, TheEpochEndsDurablyBeforeSurvivorsAreToldAndTheNextJobRuns) {
  const JobId job = StartJob();
  harness_.Lose("a");
  EXPECT_EQ(history(job).ended_epoch, Epoch(1));
  const size_t entries = harness_.journal.size();
  EXPECT_TRUE(harness_.journal[entries - 2].has_epoch_ended());
  EXPECT_EQ(harness_.journal[entries - 1].job_state_changed().root_cause().worker(), "a");
  for (const char* survivor : {"b", "c"}) {
    EXPECT_EQ(harness_.Sent(survivor, Message::kAbort).back().fence().epoch(), 2u);
    EXPECT_EQ(harness_.Sent(survivor, Message::kRelease).back().fence().epoch(), 2u);
  }
  const JobId next = harness_.Submit(SmallSpec("next"));
  harness_.FinishPlanning(SmallPlan(2));
  harness_.RunUntilQuiet();
  EXPECT_EQ(history(next).state, v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DecideWorkerTest, AnIncarnationThatWasReplacedDoesNotComeBack) {
  harness_.Connect("a", 1);
  harness_.Connect("a", 2);
  harness_.Connect("a", 1);
  EXPECT_EQ(harness_.ended_sessions.at(SessionId(3)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(harness_.worker("a").incarnation, Incarnation(2));
  EXPECT_EQ(harness_.worker("a").session, SessionId(2));
}

TEST_F(DecideWorkerTest, ACoordinatorThatStoodStillBlamesNobody) {
  const JobId job = StartJob();
  harness_.Pass(absl::Seconds(1));
  harness_.now += absl::Seconds(20);  // its process was stopped
  harness_.Feed(Tick{});
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
  // Those that are heard again go on; who is not is lost as late as the coordinator was.
  harness_.silent.insert("b");
  for (const char* name : {"a", "c"}) harness_.Step(name);
  harness_.Pass(absl::Milliseconds(500));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
  harness_.Pass(absl::Seconds(3));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history(job).root_cause->worker(), "b");
}

TEST_F(DecideWorkerTest, WorkersThatHungUpOnACoordinatorThatStoodStillMayDialAsAfterARestart) {
  const JobId job = StartJob();
  harness_.Pass(absl::Seconds(1));
  harness_.now += absl::Seconds(4);
  harness_.Feed(Tick{});
  for (const char* name : {"a", "c"}) harness_.Step(name);
  harness_.Break("b");  // its lease was over
  harness_.Pass(absl::Seconds(5));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
  harness_.Dial("b");
  harness_.RunUntilQuiet();
  EXPECT_EQ(history(job).state, v1::JOB_STATE_SUCCEEDED);

  harness_.Pass(absl::Seconds(30));
  harness_.Lose("b");
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_LOST);
}

TEST_F(DecideWorkerTest, AWorkerThatConnectsAfterALongSilenceHasItsLease) {
  harness_.Pass(absl::Hours(5));
  harness_.Connect("a");
  harness_.silent.insert("a");
  harness_.Pass(FleetOptions().lease);
  EXPECT_EQ(Describe("a").state(), v1::WORKER_STATE_LOST);
}

// ---- leaving

TEST_F(DecideWorkerTest, AnIdleWorkerThatLeavesIsDismissed) {
  harness_.Connect("a");
  const SessionId session = harness_.sessions.at("a");
  Leave("a");
  EXPECT_EQ(harness_.sent["a"].back().message_case(), Message::kDismiss);
  EXPECT_TRUE(harness_.ended_sessions.at(session).ok());
  EXPECT_TRUE(harness_.state.workers().empty());
}

TEST_F(DecideWorkerTest, AMemberThatLeavesFinishesItsStep) {
  const JobId job = StartJob();
  Leave("b");
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_LEAVING);
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
  harness_.RunUntil([&] { return HasEnded(history(job).state); });
  EXPECT_EQ(history(job).last_commit.step(), 1u);
  EXPECT_EQ(history(job).reason, kReasonWorkerLost);
  EXPECT_THAT(history(job).message, HasSubstr("worker b (rank 1, stage 1) was lost: it has left"));
  EXPECT_EQ(harness_.sent["b"].back().message_case(), Message::kDismiss);
  EXPECT_FALSE(harness_.state.workers().contains(WorkerId("b")));
  EXPECT_EQ(Describe("a").state(), v1::WORKER_STATE_IDLE);
}

TEST_F(DecideWorkerTest, AMemberThatDoesNotWaitForTheStepHasLeftAtOnce) {
  const JobId job = StartJob();
  Leave("b");
  harness_.Break("b");
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(history(job).message, HasSubstr("it has left: SIGTERM"));
}

TEST_F(DecideWorkerTest, AMemberThatLeavesWhenAllStepsAreDoneDoesNotHarmTheJob) {
  const JobId job = StartJob();
  harness_.RunUntil([&] { return harness_.job(job).progress.phase == Phase::kWritingShards; });
  Leave("b");
  harness_.RunUntilQuiet();
  EXPECT_EQ(history(job).state, v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(harness_.state.workers().contains(WorkerId("b")));
}

TEST_F(DecideWorkerTest, AWorkerThatLeavesGetsNoJob) {
  harness_.Connect("a");
  harness_.Connect("b");
  Leave("a");
  const JobId job = harness_.Submit(SmallSpec());
  EXPECT_EQ(harness_.job(job).progress.members->size(), 1u);
}

// ---- hanging

TEST_F(DecideWorkerTest, AMemberThatHangsIsBlamedAndOthersAreNot) {
  const JobId job = StartJob();
  harness_.Step("a");  // has voted
  harness_.runs["b"] = At(1, 3, "1F1");
  const SessionId session = harness_.sessions.at("b");
  for (int i = 0; i < 10; ++i) {  // c moves
    harness_.runs["c"] = At(1, static_cast<uint64_t>(i), "2F1");
    harness_.Pass(absl::Milliseconds(250));
  }
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(history(job).reason, kReasonWorkerHung);
  EXPECT_EQ(history(job).root_cause->worker(), "b");
  EXPECT_EQ(history(job).root_cause->action(), "1F1");
  EXPECT_EQ(harness_.ended_sessions.at(session).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Describe("b").state(), v1::WORKER_STATE_LOST);
  EXPECT_TRUE(harness_.Sent("b", Message::kAbort).empty());
  EXPECT_FALSE(harness_.Sent("c", Message::kRelease).empty());
}

TEST_F(DecideWorkerTest, AMemberThatMovesIsNotBlamed) {
  const JobId job = StartJob();
  for (uint64_t i = 0; i < 40; ++i) {
    for (const char* name : {"a", "b", "c"}) harness_.runs[name] = At(1, i / 4, "F");
    harness_.Pass(absl::Milliseconds(250));
  }
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
}

// It waits for a slow peer, and then has to compute: the end of the wait is a move.
TEST_F(DecideWorkerTest, AMemberIsNotBlamedForWhatItWaitedFor) {
  const JobId job = StartJob();
  v1::RunState waits = At(1, 3, "1F1");
  waits.set_waiting(true);
  for (uint64_t i = 0; i < 16; ++i) {
    harness_.runs["a"] = At(1, i / 4, "0F");
    harness_.runs["b"] = i < 8 ? waits : At(1, 3, "1F1");
    harness_.runs["c"] = At(1, i / 4, "2F");
    harness_.Pass(absl::Milliseconds(240));
  }
  EXPECT_EQ(history(job).state, v1::JOB_STATE_RUNNING);
}

TEST_F(DecideWorkerTest, NobodyHangsWhileNothingRuns) {
  v1::JobSpec spec = SmallSpec();
  const JobId job = StartJob(spec);
  harness_.Feed(PauseRequested{1, job});
  harness_.RunUntilQuiet();
  ASSERT_EQ(harness_.job(job).progress.phase, Phase::kPaused);
  harness_.Pass(absl::Hours(1));
  EXPECT_EQ(history(job).state, v1::JOB_STATE_PAUSED);
}

TEST_F(DecideWorkerTest, AMemberThatNeverPreparesItsStagesEndsTheWait) {
  for (const char* name : {"a", "b"}) harness_.Connect(name);
  const JobId job = harness_.Submit(SmallSpec());
  harness_.FinishPlanning(SmallPlan(2));
  harness_.Step("a");
  harness_.Pass(FleetOptions().phase_timeout);
  EXPECT_EQ(history(job).state, v1::JOB_STATE_FAILED);
  EXPECT_THAT(history(job).message, HasSubstr("worker b (rank 1, stage 1) was lost: it has not prepared its stages"));
}

// ---- logs

TEST_F(DecideWorkerTest, LogLinesOfMembersAreKeptAlsoAfterTheEnd) {
  const JobId job = StartJob();
  harness_.Connect("stranger");
  v1::WorkerMessage message = harness_.Fenced("a", job);
  message.mutable_log_lines()->add_lines()->set_text("hello");
  EXPECT_TRUE(harness_.Say("a", message));
  harness_.Lose("b");
  EXPECT_TRUE(harness_.Say("a", message));
  message.mutable_fence()->set_incarnation(harness_.workers.at("stranger")->incarnation().value());
  EXPECT_FALSE(harness_.Say("stranger", message));
  ASSERT_EQ(harness_.log_lines.size(), 2u);
  EXPECT_EQ(harness_.log_lines[1].lines.lines(0).text(), "hello");
}

}  // namespace
}  // namespace stagecoach
