// What an agent does when its session or its lease ends, at each point of a step, and when it comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/protocol_version.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/agent_harness.h"
#include "worker/agent/agent.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(20);  // never reached by a passing test
constexpr absl::Duration kInterval = absl::Milliseconds(250);

class AgentSessionTest : public testing::Test {
 protected:
  // From the next Welcome on.
  void UseLease() {
    harness_.welcome.mutable_lease()->set_seconds(3);
    harness_.welcome.mutable_heartbeat_interval()->set_nanos(250'000'000);
  }
  // A new session with the same coordinator, after which the worker holds what `Accept` said.
  v1::HeldJob Reattach(uint32_t rank) {
    const v1::Hello hello = harness_.Accept(rank);
    harness_.Welcome(rank);
    return hello.held();
  }
  v1::HeldJob BreakAndReattach(uint32_t rank) {
    harness_.Break(rank);
    return Reattach(rank);
  }
  void ExpectHeld(const v1::HeldJob& held, uint64_t applied, uint64_t prepared, uint64_t last_commit) {
    EXPECT_EQ(held.job(), "job");
    EXPECT_EQ(held.epoch(), harness_.epoch);
    EXPECT_EQ(held.applied_step(), applied);
    EXPECT_EQ(held.prepared_step(), prepared);
    EXPECT_EQ(held.last_commit().step(), last_commit);
  }
  // Holds the first forward of worker 0 until LetForwardGo, or until its stream is cancelled.
  void HoldForward() {
    harness_.worker(0).hook = [this](const char*, const MicroBatch& micro_batch) {
      if (!hold_.load()) return absl::OkStatus();
      reached_.store(true);
      while (hold_.load() && micro_batch.stream->CheckNotCancelled().ok()) std::this_thread::yield();
      return micro_batch.stream->CheckNotCancelled();
    };
  }
  void BeginStepThatHolds() {
    HoldForward();
    harness_.Assign();
    harness_.Connect();
    for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, harness_.RunStep(rank, 1));
    AwaitHold();
  }
  void AwaitHold() {
    while (!reached_.load()) std::this_thread::yield();
    reached_.store(false);
  }
  void BeginJob() {
    harness_.Assign();
    harness_.Connect();
  }
  // The next epoch, in which the step after `last_commit` is run.
  void GoOn(const v1::CommitRecord& last_commit) {
    ++harness_.epoch;
    harness_.Assign(last_commit);
    harness_.Connect();
    harness_.PrepareStep(last_commit.step() + 1);
    harness_.Commit(last_commit.step() + 1);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(harness_.worker(rank).num_states, 1);
      EXPECT_FLOAT_EQ(harness_.worker(rank).state->values[0], -0.5f * static_cast<float>(last_commit.step() + 1));
    }
  }
  void AwaitClosed(const std::shared_ptr<AcceptedSession>& session) {
    while (!session->closed.load()) std::this_thread::yield();
  }
  v1::Heartbeat NextHeartbeat(uint32_t rank) {
    harness_.clock.Advance(kInterval);
    const v1::WorkerMessage message = harness_.Receive(rank);
    EXPECT_TRUE(message.has_heartbeat()) << message.ShortDebugString();
    EXPECT_EQ(message.fence().coordinator_term(), harness_.term);
    return message.heartbeat();
  }
  void Answer(uint32_t rank, const v1::Heartbeat& heartbeat) {
    v1::CoordinatorMessage reply;
    reply.mutable_heartbeat_reply()->set_sequence(heartbeat.sequence());
    harness_.Send(rank, reply);
    harness_.AwaitRead(rank);
  }
  std::optional<absl::Status> End(uint32_t rank) { return harness_.worker(rank).agent->Wait(kSoon); }

  AgentHarness harness_{{.num_stages = 2, .num_micro_batches = 3}};
  std::atomic<bool> hold_{true}, reached_{false};
};

TEST_F(AgentSessionTest, SaysWhoItIsAndThatItHoldsNothing) {
  harness_.Break(0);
  const v1::Hello hello = harness_.Accept(0);
  EXPECT_EQ(hello.worker(), "worker0");
  EXPECT_EQ(hello.numerics_class(), "fake");
  EXPECT_EQ(hello.max_threads(), 4u);
  EXPECT_EQ(hello.protocol_version(), kProtocolVersion);
  EXPECT_EQ(hello.build_version(), "0.0.0");
  EXPECT_EQ(hello.device(), "fake device");
  EXPECT_EQ(hello.host(), "here");
  EXPECT_EQ(hello.pid(), 4711u);
  EXPECT_FALSE(hello.has_held());
}

TEST_F(AgentSessionTest, BeatsWhileIdle) {
  UseLease();
  BreakAndReattach(0);
  for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
    const v1::Heartbeat heartbeat = NextHeartbeat(0);
    EXPECT_EQ(heartbeat.sequence(), sequence);
    EXPECT_FALSE(heartbeat.has_run());
    Answer(0, heartbeat);
  }
  EXPECT_TRUE(harness_.worker(0).agent->status().in_session);
}

TEST_F(AgentSessionTest, HeartbeatsSayWhoComputesAndWhoWaitsForWhom) {
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  BeginStepThatHolds();
  v1::RunState run = NextHeartbeat(0).run();
  EXPECT_EQ(run.run(), 1u);
  EXPECT_EQ(run.step(), 1u);
  EXPECT_EQ(run.action(), "0F0");
  EXPECT_EQ(run.instruction(), 1u);
  EXPECT_FALSE(run.waiting());
  EXPECT_EQ(run.usual_seconds(), 0);
  do {
    run = NextHeartbeat(1).run();
  } while (!run.waiting());
  EXPECT_EQ(run.action(), "1F0");
  const v1::StageProgram program = PipelineProgram({.num_stages = 2, .num_micro_batches = 3}, 1);
  EXPECT_EQ(program.channels(static_cast<int>(run.channel())).from_stage(), 0u);
  EXPECT_EQ(program.channels(static_cast<int>(run.channel())).kind(), v1::CHANNEL_KIND_ACTIVATION);
}

TEST_F(AgentSessionTest, HeartbeatsSayHowLongAnInstructionUsuallyTakes) {
  UseLease();
  hold_.store(false);
  HoldForward();
  BeginJob();
  for (uint64_t step = 1; step <= 12; ++step) {
    harness_.PrepareStep(step);
    harness_.Commit(step);
  }
  BreakAndReattach(0);
  hold_.store(true);
  harness_.Send(0, harness_.RunStep(0, 13));
  AwaitHold();
  const v1::RunState run = NextHeartbeat(0).run();
  EXPECT_EQ(run.run(), 13u);
  EXPECT_GT(run.usual_seconds(), 0);
  EXPECT_LT(run.usual_seconds(), 10);
}

TEST_F(AgentSessionTest, BrokenBeforeTheVoteTheProgramInHandIsFinished) {
  BeginStepThatHolds();
  harness_.Break(0);
  ExpectHeld(harness_.Accept(0).held(), 0, 0, 0);
  hold_.store(false);
  EXPECT_TRUE(harness_.Receive(1).has_step_prepared());  // so worker 0 has done its part
  harness_.Break(0);
  v1::HeldJob held = harness_.Accept(0).held();
  while (held.prepared_step() == 0) {  // its last instructions are under way
    harness_.Break(0);
    held = harness_.Accept(0).held();
  }
  ExpectHeld(held, 0, 1, 0);
  harness_.Welcome(0);
  EXPECT_TRUE(harness_.IsQuiet(0));  // a vote that had no session is not sent again
  GoOn({});
}

TEST_F(AgentSessionTest, BrokenBeforeTheVoteANewEpochInterruptsTheProgram) {
  BeginStepThatHolds();
  ExpectHeld(BreakAndReattach(0), 0, 0, 0);
  ++harness_.epoch;
  harness_.Send(0, harness_.AssignStages(0));
  EXPECT_TRUE(harness_.Receive(0).has_stages_prepared());
  hold_.store(false);
}

TEST_F(AgentSessionTest, BrokenAfterTheVoteTheVerdictComesWithTheNewEpoch) {
  BeginJob();
  harness_.PrepareStep(1);
  for (uint32_t rank = 0; rank < 2; ++rank) ExpectHeld(BreakAndReattach(rank), 0, 1, 0);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentSessionTest, BrokenAfterTheVoteAStepThatWasNotCommittedIsRunAgain) {
  BeginJob();
  const std::vector<v1::StepPrepared> first = harness_.PrepareStep(1);
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  ++harness_.epoch;
  harness_.Assign();
  harness_.Connect();
  const std::vector<v1::StepPrepared> second = harness_.PrepareStep(1);
  EXPECT_EQ(first[0].squared_norms(0).value(), second[0].squared_norms(0).value());
}

TEST_F(AgentSessionTest, BrokenWhileTheVerdictIsAppliedItIsAppliedAndKnown) {
  harness_.worker(0).on_update = [this] {
    reached_.store(true);
    while (hold_.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  BeginJob();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  AwaitHold();
  ExpectHeld(BreakAndReattach(0), 0, 1, 1);
  hold_.store(false);
  EXPECT_EQ(harness_.Receive(0).step_applied().step(), 1u);
}

TEST_F(AgentSessionTest, BrokenAfterTheVerdictOneWorkerKnowsItAndTheOtherLearnsIt) {
  BeginJob();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  EXPECT_TRUE(harness_.Receive(0).has_step_applied());
  ExpectHeld(BreakAndReattach(0), 1, 0, 1);
  ExpectHeld(BreakAndReattach(1), 0, 1, 0);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentSessionTest, NothingNewIsStartedWithoutASession) {
  harness_.worker(0).on_update = [this] {
    reached_.store(true);
    while (hold_.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  const auto began_second = std::make_shared<std::atomic<bool>>(false);  // the step may outlive the case
  harness_.worker(0).hook = [began_second](const char*, const MicroBatch& micro_batch) {
    if (micro_batch.step == Step(2)) began_second->store(true);
    return absl::OkStatus();
  };
  BeginJob();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  harness_.Send(0, harness_.RunStep(0, 2));  // waits behind the commit
  AwaitHold();
  harness_.Break(0);
  harness_.Accept(0);
  hold_.store(false);
  while (harness_.worker(0).agent->status().last_commit.step() != 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(began_second->load());
  harness_.Welcome(0);
  while (!began_second->load()) std::this_thread::yield();
}

TEST_F(AgentSessionTest, WithoutALeaseItIsInterruptedAndDialsAgain) {
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  BeginStepThatHolds();
  const std::shared_ptr<AcceptedSession> session = harness_.worker(0).session;
  harness_.clock.Advance(absl::Milliseconds(2700));
  AwaitClosed(session);
  ExpectHeld(harness_.Accept(0).held(), 0, 0, 0);
  ExpectHeld(harness_.Accept(1).held(), 0, 0, 0);
  hold_.store(false);
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Welcome(rank);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Send(rank, harness_.RunStep(rank, 1));  // in the epoch that it has given up
    v1::WorkerFailure failure = harness_.Receive(rank).failure();
    if (!failure.action().empty()) failure = harness_.Receive(rank).failure();  // what was interrupted
    EXPECT_EQ(failure.code(), static_cast<int>(absl::StatusCode::kAborted));
    EXPECT_EQ(failure.message(), "the worker's lease was over");
  }
  GoOn({});
}

TEST_F(AgentSessionTest, AnsweredHeartbeatsKeepWhatRuns) {
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  BeginStepThatHolds();
  for (int i = 0; i < 20; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const v1::WorkerMessage message = [&] {
        if (rank == 0) harness_.clock.Advance(kInterval);
        return harness_.Receive(rank);
      }();
      Answer(rank, message.heartbeat());
    }
  }
  hold_.store(false);
  EXPECT_TRUE(harness_.Receive(0).has_step_prepared());
}

TEST_F(AgentSessionTest, WithoutALeasePreparedGradientsAreKept) {
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  BeginJob();
  harness_.PrepareStep(1);
  harness_.clock.Advance(absl::Seconds(5));
  for (uint32_t rank = 0; rank < 2; ++rank) ExpectHeld(Reattach(rank), 0, 1, 0);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentSessionTest, OrdersThatCameWhileItStoodStillAreNotCarriedOut) {
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  std::atomic<int> forwards{0};
  harness_.worker(0).hook = [&](const char*, const MicroBatch&) {
    ++forwards;
    return absl::OkStatus();
  };
  BeginJob();
  const std::shared_ptr<AcceptedSession> session = harness_.worker(0).session;
  harness_.clock.Advance(absl::Seconds(5));  // as a process that was stopped sees it
  v1::CoordinatorMessage order = harness_.RunStep(0, 1);
  order.mutable_fence()->set_job("job");
  order.mutable_fence()->set_epoch(harness_.epoch);
  order.mutable_fence()->set_coordinator_term(harness_.term);
  order.mutable_fence()->set_incarnation(100);
  session->to_worker->Push(std::move(order)).IgnoreError();  // the agent may have closed it by now
  AwaitClosed(session);
  Reattach(0);
  EXPECT_EQ(forwards.load(), 0);
}

TEST_F(AgentSessionTest, WritesNoFileWithoutALease) {
  const TemporaryDirectory directory;
  UseLease();
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  harness_.worker(0).on_digest = [&] { harness_.clock.Advance(absl::Seconds(5)); };
  BeginJob();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  v1::CoordinatorMessage write;
  write.mutable_write_checkpoint()->set_step(1);
  write.mutable_write_checkpoint()->set_directory(directory.path());
  write.mutable_write_checkpoint()->set_file("shard0.safetensors");
  harness_.Send(0, write);
  Reattach(0);
  // The answer comes when what was begun of the file is gone.
  EXPECT_TRUE(harness_.Receive(0).has_shard_failed());
  EXPECT_TRUE(FileSystem::Posix().List(directory.path())->empty());
}

TEST_F(AgentSessionTest, DropsTheStateWithoutASessionForTooLong) {
  harness_.welcome.mutable_orphan_timeout()->set_seconds(60);
  for (uint32_t rank = 0; rank < 2; ++rank) BreakAndReattach(rank);
  BeginJob();
  harness_.Break(0);
  harness_.Accept(0);
  harness_.clock.Advance(absl::Seconds(59));
  harness_.Break(0);
  EXPECT_TRUE(harness_.Accept(0).has_held());
  harness_.clock.Advance(absl::Seconds(1));
  while (harness_.worker(0).agent->status().holds_job) std::this_thread::yield();
  harness_.Break(0);
  EXPECT_FALSE(harness_.Accept(0).has_held());
}

TEST_F(AgentSessionTest, EndsWhenANewerProcessHasItsPlace) {
  harness_.Break(0, absl::AbortedError("another incarnation"));
  EXPECT_EQ(End(0), absl::AbortedError("another incarnation"));
}

TEST_F(AgentSessionTest, EndsWhenItsProtocolIsRefused) {
  harness_.Break(0);
  harness_.Accept(0);
  harness_.Break(0, absl::FailedPreconditionError("protocol version 1, not 2"));
  EXPECT_EQ(End(0), absl::FailedPreconditionError("protocol version 1, not 2"));
}

TEST_F(AgentSessionTest, DialsAgainAfterAnyOtherEnd) {
  for (const absl::Status& why :
       {absl::UnavailableError("x"), absl::FailedPreconditionError("x"), absl::InvalidArgumentError("x"),
        absl::ResourceExhaustedError("x"), absl::DeadlineExceededError("x"), absl::OkStatus()}) {
    harness_.Break(0, why);
    Reattach(0);
  }
}

TEST_F(AgentSessionTest, AnOlderCoordinatorsWelcomeIsNone) {
  harness_.term = 5;
  BreakAndReattach(0);
  harness_.term = 4;
  harness_.Break(0);
  harness_.Accept(0);
  const uint64_t dropped = harness_.worker(0).agent->status().dropped_messages;
  harness_.Send(0, harness_.WelcomeMessage());
  while (harness_.worker(0).agent->status().dropped_messages == dropped) std::this_thread::yield();
  EXPECT_FALSE(harness_.worker(0).agent->status().in_session);
  const std::shared_ptr<AcceptedSession> session = harness_.worker(0).session;
  harness_.clock.Advance(absl::Seconds(10));
  AwaitClosed(session);
}

TEST_F(AgentSessionTest, WhatIsHeldIsOfTheJobThatIsHeld) {
  BeginJob();
  for (uint64_t step = 1; step <= 3; ++step) {
    harness_.PrepareStep(step);
    harness_.Commit(step);
  }
  v1::CoordinatorMessage release;
  release.mutable_release();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, release);
  harness_.job = "other";
  harness_.worker(0).on_build = [this](Stream&) {
    reached_.store(true);
    while (hold_.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  harness_.Send(0, harness_.AssignStages(0));
  AwaitHold();
  const v1::HeldJob held = BreakAndReattach(0);
  EXPECT_EQ(held.job(), "other");
  EXPECT_EQ(held.applied_step(), 0u);
  EXPECT_EQ(held.last_commit().step(), 0u);
  hold_.store(false);
  EXPECT_TRUE(harness_.Receive(0).has_stages_prepared());
}

TEST_F(AgentSessionTest, LeavesWhenItIsDismissed) {
  harness_.worker(0).agent->Leave("SIGTERM");
  EXPECT_EQ(harness_.Receive(0).leaving().reason(), "SIGTERM");
  EXPECT_EQ(harness_.worker(0).agent->Wait(absl::ZeroDuration()), std::nullopt);
  v1::CoordinatorMessage dismiss;
  dismiss.mutable_dismiss();
  const std::shared_ptr<AcceptedSession> session = harness_.worker(0).session;
  harness_.Send(0, dismiss);
  EXPECT_EQ(End(0), absl::OkStatus());
  AwaitClosed(session);
}

TEST_F(AgentSessionTest, DoesWhatItIsToldWhileItLeaves) {
  BeginJob();
  harness_.worker(0).agent->Leave("SIGTERM");
  harness_.worker(0).agent->Leave("SIGINT");  // it knows
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
  harness_.PrepareStep(1);
  harness_.Commit(1);
}

TEST_F(AgentSessionTest, SaysAgainThatItLeavesInTheNextSession) {
  BeginJob();
  harness_.worker(0).agent->Leave("SIGTERM");
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
  BreakAndReattach(0);
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
}

TEST_F(AgentSessionTest, AbandonsAStepThatTakesTooLong) {
  BeginStepThatHolds();
  harness_.worker(0).agent->Leave("SIGTERM");
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
  harness_.clock.Advance(absl::Seconds(29));
  EXPECT_EQ(harness_.worker(0).agent->Wait(absl::Milliseconds(20)), std::nullopt);
  harness_.clock.Advance(absl::Seconds(1));
  EXPECT_EQ(End(0), absl::OkStatus());
}

TEST_F(AgentSessionTest, LeavesAtOnceWithoutASessionAndAJob) {
  harness_.Break(0);
  harness_.Accept(0);
  harness_.worker(0).agent->Leave("SIGTERM");
  EXPECT_EQ(End(0), absl::OkStatus());
}

TEST_F(AgentSessionTest, LeavesWhenTheSessionBreaksMeanwhile) {
  harness_.worker(0).agent->Leave("SIGTERM");
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
  harness_.Break(0);
  EXPECT_EQ(End(0), absl::OkStatus());
}

TEST_F(AgentSessionTest, BuildingTheStateIsInterrupted) {
  harness_.worker(0).on_build = [this](Stream& stream) {
    reached_.store(true);
    while (stream.CheckNotCancelled().ok()) std::this_thread::yield();
    return stream.CheckNotCancelled();
  };
  harness_.Send(0, harness_.AssignStages(0));
  AwaitHold();
  harness_.Send(0, AgentHarness::Abort());
  const v1::WorkerMessage answer = harness_.Receive(0);
  EXPECT_TRUE(answer.has_aborted()) << answer.ShortDebugString();
  harness_.worker(0).on_build = nullptr;
  ++harness_.epoch;
  BeginJob();
}

}  // namespace
}  // namespace stagecoach
