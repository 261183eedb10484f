// Aborts from every state, and the commit law: after StepPrepared nothing drops the gradients until the verdict is
// known.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/clock.h"
#include "tests/testing/worker/agent_harness.h"
#include "worker/agent/agent.h"

namespace stagecoach {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr absl::Duration kAbortBound = absl::Seconds(1);
#else
constexpr absl::Duration kAbortBound = absl::Milliseconds(100);
#endif

class AgentAbortTest : public testing::Test {
 protected:
  // Aborts all workers with `last_commit`, and checks what they answer.
  void AbortAll(uint64_t applied_step, uint64_t prepared_step, const v1::CommitRecord& last_commit = {}) {
    const absl::Duration start = Clock::Real().Now();
    for (uint32_t rank = 0; rank < harness_.num_workers(); ++rank)
      harness_.Send(rank, AgentHarness::Abort(last_commit));
    for (uint32_t rank = 0; rank < harness_.num_workers(); ++rank) {
      v1::WorkerMessage message = harness_.Receive(rank);
      // A peer's abort may be felt before one's own is read.
      if (message.failure().code() == static_cast<int>(absl::StatusCode::kUnavailable))
        message = harness_.Receive(rank);
      ASSERT_TRUE(message.has_aborted()) << message.ShortDebugString();
      EXPECT_EQ(message.aborted().applied_step(), applied_step);
      EXPECT_EQ(message.aborted().prepared_step(), prepared_step);
      EXPECT_EQ(message.fence().epoch(), harness_.epoch);
    }
    EXPECT_LT(Clock::Real().Now() - start, kAbortBound);
  }
  // Assigns the same stages in the next epoch, and trains a step from there.
  void GoOn(const v1::CommitRecord& last_commit) {
    ++harness_.epoch;
    harness_.Assign(last_commit);
    harness_.Connect();
    harness_.PrepareStep(last_commit.step() + 1);
    harness_.Commit(last_commit.step() + 1);
    EXPECT_EQ(harness_.worker(0).num_states, 1);
    EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -0.5f * static_cast<float>(last_commit.step() + 1));
  }
  // Holds the first forward of worker 0 until its stream is cancelled; `reached` says that it is there.
  void HoldForward() {
    harness_.worker(0).hook = [this](const char*, const MicroBatch& micro_batch) {
      if (!hold_.load()) return absl::OkStatus();
      reached_.store(true);
      while (micro_batch.stream->CheckNotCancelled().ok()) std::this_thread::yield();
      return micro_batch.stream->CheckNotCancelled();
    };
  }

  AgentHarness harness_{{.num_stages = 2, .num_micro_batches = 3}};
  // Holds the next update of worker 0, which cannot be interrupted, until LetUpdateFail.
  void HoldUpdate() {
    harness_.worker(0).on_update = [this] {
      reached_.store(true);
      while (hold_.load()) std::this_thread::yield();
      return absl::InternalError("sick");
    };
  }
  void LetUpdateFail() {
    harness_.AwaitRead(0);
    hold_.store(false);
  }
  void ExpectSickFailure(const v1::WorkerMessage& message, const char* job, uint64_t epoch) {
    EXPECT_EQ(message.failure().code(), static_cast<int>(absl::StatusCode::kInternal)) << message.ShortDebugString();
    EXPECT_EQ(message.failure().message(), "sick");
    EXPECT_EQ(message.fence().job(), job);
    EXPECT_EQ(message.fence().epoch(), epoch);
  }
  static v1::CoordinatorMessage Release() {
    v1::CoordinatorMessage message;
    message.mutable_release();
    return message;
  }

  std::atomic<bool> hold_{true}, reached_{false};
};

TEST_F(AgentAbortTest, WhileComputingAndReceiving) {
  HoldForward();
  harness_.Assign();
  harness_.Connect();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, harness_.RunStep(rank, 1));
  while (!reached_.load()) std::this_thread::yield();
  hold_.store(false);
  ++harness_.epoch;  // an abort carries the new epoch
  AbortAll(0, 0);
  GoOn({});
}

TEST_F(AgentAbortTest, WhileWaitingToSend) {
  harness_.Assign();
  harness_.Connect();
  harness_.Send(0, harness_.RunStep(0, 1));  // and nobody receives
  AbortAll(0, 0);
  GoOn({});
}

TEST_F(AgentAbortTest, WhileConnecting) {
  harness_.Assign();
  v1::CoordinatorMessage connect;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    v1::Peer& peer = *connect.mutable_connect_peers()->add_peers();
    peer.set_incarnation(100 + rank);
    peer.set_endpoint(rank == 0 ? harness_.endpoint(0) : "in_process/999");
  }
  harness_.Send(0, connect);
  AbortAll(0, 0);
  GoOn({});
}

TEST_F(AgentAbortTest, WhileIdleOrUnassigned) {
  AbortAll(0, 0);
  ++harness_.epoch;
  harness_.Assign();
  AbortAll(0, 0);
  AbortAll(0, 0);
  GoOn({});
}

TEST_F(AgentAbortTest, WhileWaitingForTheVerdictKeepsTheGradients) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  ++harness_.epoch;
  AbortAll(0, 1);
  AbortAll(0, 1);
  EXPECT_FLOAT_EQ(harness_.worker(1).state->gradient[0], 1);
  GoOn(AgentHarness::Record(1));  // it was committed after all
}

TEST_F(AgentAbortTest, WithTheVerdictAppliesIt) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  AbortAll(1, 0, AgentHarness::Record(1));
  EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -0.5f);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentAbortTest, VerdictAfterTheAbortIsApplied) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  AbortAll(0, 1);
  harness_.Commit(1);
  EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -0.5f);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentAbortTest, NewAssignmentWithoutAbortAppliesTheVerdictThatItCarries) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentAbortTest, StepThatWasNotCommittedIsRunAgain) {
  harness_.Assign();
  harness_.Connect();
  const std::vector<v1::StepPrepared> first = harness_.PrepareStep(1);
  AbortAll(0, 1);
  ++harness_.epoch;
  harness_.Assign({});
  harness_.Connect();
  const std::vector<v1::StepPrepared> second = harness_.PrepareStep(1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(first[rank].squared_norms(0).value(), second[rank].squared_norms(0).value());
  }
  EXPECT_EQ(first[1].loss_parts(0).value(), second[1].loss_parts(0).value());
  harness_.Commit(1);
}

TEST_F(AgentAbortTest, CommitThatWaitsIsNotLost) {
  hold_.store(false);
  HoldForward();
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  hold_.store(true);
  harness_.Send(0, harness_.RunStep(0, 0, /*evaluation=*/true));
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));  // waits behind the evaluation
  while (!reached_.load()) std::this_thread::yield();
  harness_.Send(0, AgentHarness::Abort());
  const v1::WorkerMessage message = harness_.Receive(0);
  ASSERT_TRUE(message.has_aborted()) << message.ShortDebugString();
  EXPECT_EQ(message.aborted().applied_step(), 1u);
  EXPECT_EQ(message.aborted().prepared_step(), 0u);
}

TEST_F(AgentAbortTest, CommitUnderWayIsNotCancelled) {
  std::atomic<bool> updating{false}, sent{false};
  harness_.worker(0).on_update = [&] {
    updating.store(true);
    while (!sent.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  while (!updating.load()) std::this_thread::yield();
  harness_.Send(0, AgentHarness::Abort());
  sent.store(true);
  v1::WorkerMessage message = harness_.Receive(0);
  if (message.has_step_applied()) message = harness_.Receive(0);  // answered before the abort was read
  EXPECT_EQ(message.aborted().applied_step(), 1u);
  EXPECT_EQ(message.aborted().prepared_step(), 0u);
}

TEST_F(AgentAbortTest, LateAnswersCarryTheFenceOfWhatTheyAnswer) {
  HoldUpdate();
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  while (!reached_.load()) std::this_thread::yield();
  harness_.Send(0, AgentHarness::Abort());
  harness_.Send(0, Release());
  harness_.job = "other";
  harness_.epoch = 7;
  harness_.Send(0, harness_.AssignStages(0));
  LetUpdateFail();
  ExpectSickFailure(harness_.Receive(0), "job", 1);
  const v1::WorkerMessage aborted = harness_.Receive(0);
  EXPECT_TRUE(aborted.has_aborted()) << aborted.ShortDebugString();
  EXPECT_EQ(aborted.fence().job(), "job");
  EXPECT_EQ(aborted.fence().epoch(), 1u);
  const v1::WorkerMessage prepared = harness_.Receive(0);
  EXPECT_TRUE(prepared.has_stages_prepared()) << prepared.ShortDebugString();
  EXPECT_EQ(prepared.fence().job(), "other");
  EXPECT_EQ(prepared.fence().epoch(), 7u);
}

TEST_F(AgentAbortTest, LateFailureWithACauseOfItsOwnIsTold) {
  HoldUpdate();
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.epoch = 2;
  harness_.Send(0, harness_.AssignStages(0, AgentHarness::Record(1)));  // applies the verdict that it carries
  while (!reached_.load()) std::this_thread::yield();
  harness_.epoch = 3;
  harness_.Send(0, AgentHarness::Abort());
  LetUpdateFail();
  ExpectSickFailure(harness_.Receive(0), "job", 2);
  const v1::WorkerMessage aborted = harness_.Receive(0);
  EXPECT_TRUE(aborted.has_aborted()) << aborted.ShortDebugString();
  EXPECT_EQ(aborted.fence().epoch(), 3u);
}

TEST_F(AgentAbortTest, EpochThatWasAbortedOrReleasedIsNotAssignedAgain) {
  const auto expect_dropped = [&](uint64_t num_dropped) {
    harness_.Send(0, harness_.AssignStages(0));
    EXPECT_TRUE(harness_.IsQuiet(0));
    EXPECT_EQ(harness_.worker(0).agent->status().dropped_messages, num_dropped);
  };
  AbortAll(0, 0);  // of what has not come yet
  expect_dropped(1);
  ++harness_.epoch;
  harness_.Send(0, Release());
  expect_dropped(2);
  ++harness_.epoch;
  harness_.Assign();
  AbortAll(0, 0);
  expect_dropped(3);
  ++harness_.epoch;
  harness_.Assign();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, Release());
  expect_dropped(4);
  ++harness_.epoch;
  harness_.Assign();
}

TEST_F(AgentAbortTest, StateOfOtherLayersIsRefusedAndNotDropped) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  ++harness_.epoch;
  v1::CoordinatorMessage other = harness_.AssignStages(0, AgentHarness::Record(1));
  other.mutable_assign_stages()->mutable_program()->mutable_stages(0)->set_last_layer(1);
  harness_.Send(0, other);
  const v1::WorkerMessage refused = harness_.Receive(0);
  ASSERT_TRUE(refused.has_failure()) << refused.ShortDebugString();
  EXPECT_EQ(refused.failure().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  GoOn(AgentHarness::Record(1));
}

TEST_F(AgentAbortTest, StateOfAnotherStepIsRefusedUnlessTheJobBegins) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  ++harness_.epoch;
  harness_.Send(0, harness_.AssignStages(0, AgentHarness::Record(7)));
  EXPECT_EQ(harness_.Receive(0).failure().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  ++harness_.epoch;
  harness_.Assign({});
  EXPECT_EQ(harness_.worker(0).num_states, 2);
}

TEST_F(AgentAbortTest, AgentThatEndsAbortsWhatRuns) {
  HoldForward();
  harness_.Assign();
  harness_.Connect();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, harness_.RunStep(rank, 1));
  while (!reached_.load()) std::this_thread::yield();
  const absl::Duration start = Clock::Real().Now();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.worker(rank).agent.reset();
  EXPECT_LT(Clock::Real().Now() - start, kAbortBound);
}

}  // namespace
}  // namespace stagecoach
