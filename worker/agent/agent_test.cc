// What an agent does with the coordinator's messages in the order in which they should come, and what it refuses.
#include "worker/agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/log.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/agent_harness.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class AgentTest : public testing::Test {
 protected:
  void ExpectFailure(uint32_t rank, absl::StatusCode code, const std::string& text) {
    const v1::WorkerMessage message = harness_.Receive(rank);
    ASSERT_TRUE(message.has_failure()) << message.ShortDebugString();
    EXPECT_EQ(message.failure().code(), static_cast<int>(code)) << message.failure().message();
    EXPECT_THAT(message.failure().message(), HasSubstr(text));
  }

  AgentHarness harness_{{.num_stages = 2, .num_micro_batches = 3}};
};

TEST_F(AgentTest, RunsStepsAndCommitsThem) {
  harness_.Assign();
  harness_.Connect();
  for (uint64_t step = 1; step <= 3; ++step) {
    const std::vector<v1::StepPrepared> prepared = harness_.PrepareStep(step);
    EXPECT_EQ(prepared[0].loss_parts_size(), 0);
    ASSERT_EQ(prepared[1].loss_parts_size(), 3);
    EXPECT_EQ(prepared[1].loss_parts(2).micro_batch(), 2u);
    ASSERT_EQ(prepared[0].squared_norms_size(), 1);
    EXPECT_EQ(prepared[0].squared_norms(0).name(), "w0");
    EXPECT_NEAR(prepared[0].squared_norms(0).value(), 4, 1e-6);
    const v1::BusySeconds& busy = prepared[0].busy_seconds();
    EXPECT_NEAR(busy.forward() + busy.backward_input() + busy.backward_weight() + busy.p2p_wait() + busy.data_wait() +
                    busy.other(),
                busy.total(), 1e-9);
    EXPECT_EQ(busy.optimizer() > 0, step > 1);
    harness_.Commit(step);
    EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -0.5f * static_cast<float>(step));
  }
  EXPECT_EQ(harness_.worker(0).agent->status().last_commit.step(), 3u);
}

TEST_F(AgentTest, TakesTheNextStepRightAfterACommit) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Send(rank, AgentHarness::CommitStep(AgentHarness::Record(1)));
    harness_.Send(rank, harness_.RunStep(rank, 2));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(harness_.Receive(rank).step_applied().step(), 1u);
    EXPECT_EQ(harness_.Receive(rank).step_prepared().step(), 2u);
  }
}

TEST_F(AgentTest, DigestsWhenAskedFor) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1), /*want_digests=*/true));
  const v1::StepApplied applied = harness_.Receive(0).step_applied();
  ASSERT_EQ(applied.digests_size(), 1);
  EXPECT_EQ(applied.digests(0).name(), "w0");
  EXPECT_EQ(applied.digests(0).dtype(), v1::DTYPE_F32);
  EXPECT_EQ(applied.digests(0).shape(0), 4u);
  EXPECT_NE(applied.digests(0).low(), 0u);
}

TEST_F(AgentTest, SkippedStepKeepsParametersAndCounts) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  v1::CommitRecord record = AgentHarness::Record(1, v1::VERDICT_SKIP);
  record.set_num_updates(0);
  harness_.Send(0, AgentHarness::CommitStep(record));
  const v1::StepApplied applied = harness_.Receive(0).step_applied();
  EXPECT_EQ(applied.step(), 1u);
  EXPECT_EQ(applied.num_updates(), 0u);
  EXPECT_EQ(harness_.worker(0).state->values[0], 0);
}

TEST_F(AgentTest, EvaluatesBetweenSteps) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Send(rank, harness_.RunStep(rank, 1, /*evaluation=*/true));
    harness_.Send(rank, harness_.RunStep(rank, 1, /*evaluation=*/true));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 2; ++i) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      ASSERT_TRUE(message.has_evaluation_done()) << message.ShortDebugString();
      EXPECT_EQ(message.evaluation_done().step(), 1u);
      EXPECT_EQ(message.evaluation_done().first_sample(), 10u);
      EXPECT_EQ(message.evaluation_done().loss_parts_size(), rank == 1 ? 3 : 0);
    }
  }
  harness_.PrepareStep(2);
}

TEST_F(AgentTest, WritesItsShard) {
  const TemporaryDirectory directory;
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  harness_.Send(0, AgentHarness::WriteCheckpoint(1, directory.path(), /*from_snapshot=*/false));
  const v1::WorkerMessage written = harness_.Receive(0);
  ASSERT_TRUE(written.has_shard_written()) << written.ShortDebugString();
  EXPECT_EQ(written.shard_written().file(), "shard.safetensors");
  EXPECT_EQ(written.shard_written().tensors_size(), 1);
  harness_.Send(0, AgentHarness::WriteCheckpoint(2, directory.path(), /*from_snapshot=*/false));
  const v1::ShardFailed failed = harness_.Receive(0).shard_failed();
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(failed.message(), HasSubstr("asked for a checkpoint of step 2"));
}

TEST_F(AgentTest, DropsWhatIsOlderThanWhatItKnows) {
  harness_.epoch = 5;
  harness_.term = 2;
  harness_.Assign();
  harness_.Connect();
  harness_.epoch = 4;
  harness_.Send(0, harness_.RunStep(0, 1));
  harness_.Send(0, AgentHarness::Abort());
  harness_.Send(0, harness_.AssignStages(0));
  harness_.epoch = 5;
  harness_.term = 1;
  harness_.Send(0, harness_.RunStep(0, 1));
  harness_.term = 2;
  v1::CoordinatorMessage other = harness_.RunStep(0, 1);
  other.mutable_fence()->set_incarnation(7);
  harness_.Send(0, other);
  EXPECT_TRUE(harness_.IsQuiet(0));
  EXPECT_EQ(harness_.worker(0).agent->status().dropped_messages, 5u);
  harness_.term = 3;  // a newer coordinator's
  EXPECT_EQ(harness_.PrepareStep(1).size(), 2u);
  harness_.term = 2;
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  EXPECT_TRUE(harness_.IsQuiet(0));
  harness_.term = 3;
  harness_.Commit(1);
}

TEST_F(AgentTest, RefusesOrdersThatDoNotFit) {
  harness_.Send(0, harness_.RunStep(0, 1));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "no stages of job job, epoch 1 are assigned here");
  harness_.threads = 9;
  harness_.Send(0, harness_.AssignStages(0));
  ExpectFailure(0, absl::StatusCode::kInvalidArgument, "the job wants 9 threads, this worker has 4");
  harness_.threads = 1;
  harness_.epoch = 2;
  harness_.Assign();
  harness_.Send(0, harness_.RunStep(0, 1));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "the peers are not connected");
  harness_.Connect();
  harness_.Send(0, harness_.AssignStages(0));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "assigned already");

  v1::CoordinatorMessage wrong_program = harness_.RunStep(0, 1);
  wrong_program.mutable_run_step()->set_program_hash("another");
  harness_.Send(0, wrong_program);
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "another program");
  harness_.Send(0, harness_.RunStep(0, 2));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "step 0 is the last one applied");
  harness_.Send(0, harness_.RunStep(0, 1, /*evaluation=*/true));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "asked to evaluate after step 1");
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1)));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "asked to commit step 1; prepared is 0, applied is 0");

  harness_.PrepareStep(1);
  harness_.Send(0, harness_.RunStep(0, 1));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "the verdict of step 1 is not known");
  harness_.Commit(1);
  harness_.Commit(1);  // again: it is applied
  EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -0.5f);

  harness_.job = "other";
  harness_.Send(0, harness_.AssignStages(0));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "still holds job job");
}

// Two orders of another job come while this one is held, the earlier one last.
TEST_F(AgentTest, BeginsNoEpochBeforeOneThatItRefused) {
  harness_.Assign();
  harness_.job = "other";
  harness_.epoch = 2;
  harness_.Send(0, harness_.AssignStages(0));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "still holds job job");
  v1::CoordinatorMessage release;
  release.mutable_release();
  harness_.job = "job";
  harness_.epoch = 1;
  harness_.Send(0, release);
  harness_.job = "other";
  harness_.Send(0, harness_.AssignStages(0));
  EXPECT_TRUE(harness_.IsQuiet(0));
  EXPECT_EQ(harness_.worker(0).agent->status().dropped_messages, 1u);
  harness_.epoch = 3;
  harness_.Send(0, harness_.AssignStages(0));
  EXPECT_TRUE(harness_.Receive(0).has_stages_prepared());
}

TEST_F(AgentTest, RefusesAProgramForOtherFrozenLayers) {
  v1::CoordinatorMessage order = harness_.AssignStages(1);
  order.mutable_assign_stages()->mutable_program()->mutable_stages(0)->set_frozen_below(true);
  harness_.Send(1, order);
  ExpectFailure(1, absl::StatusCode::kInvalidArgument,
                "the program says that nothing below stage 1 is trained, the graph does not");
}

TEST(AgentSkipTest, OpensTheChannelsOfSkipEdges) {
  AgentHarness harness({.num_stages = 3, .num_micro_batches = 3, .num_skips = 2});
  harness.Assign();
  harness.Connect();
  harness.PrepareStep(1);
  harness.Commit(1);
}

TEST(AgentSkipTest, RefusesAProgramOfConnectionsThatTheGraphDoesNotHave) {
  AgentHarness harness({.num_stages = 3, .num_micro_batches = 3, .num_skips = 2});
  v1::CoordinatorMessage order = harness.AssignStages(2);
  order.mutable_assign_stages()->mutable_graph()->mutable_skip_connections()->RemoveLast();
  harness.Send(2, order);
  const v1::WorkerFailure failure = harness.Receive(2).failure();
  EXPECT_EQ(failure.code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(failure.message(), HasSubstr("channel 1 of the program carries skip connection 1, the graph has 1"));
}

TEST_F(AgentTest, FailureNamesStepAndAction) {
  harness_.worker(0).hook = [](const char* kind, const MicroBatch& micro_batch) {
    return kind[0] == 'F' && micro_batch.index.value() == 1 ? absl::InternalError("sick") : absl::OkStatus();
  };
  harness_.Assign();
  harness_.Connect();
  harness_.Send(0, harness_.RunStep(0, 1));
  const v1::WorkerFailure failure = harness_.Receive(0).failure();
  EXPECT_EQ(failure.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(failure.message(), "0F1: sick");
  EXPECT_EQ(failure.step(), 1u);
  EXPECT_EQ(failure.action(), "0F1");
  harness_.Send(0, harness_.RunStep(0, 1));
  ExpectFailure(0, absl::StatusCode::kFailedPrecondition, "a new epoch is needed");
}

TEST_F(AgentTest, ReleaseMakesRoomForAnotherJob) {
  harness_.Assign();
  harness_.Connect();
  harness_.PrepareStep(1);
  harness_.Commit(1);
  v1::CoordinatorMessage release;
  release.mutable_release();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, release);
  harness_.job = "other";
  harness_.Assign();
  EXPECT_EQ(harness_.worker(0).num_states, 2);
  EXPECT_EQ(harness_.worker(0).num_devices, 1);  // of as many threads
  harness_.Connect();
  harness_.PrepareStep(1);
}

TEST_F(AgentTest, LinesAboutAJobGoToItsLog) {
  auto logger = std::make_shared<spdlog::logger>(
      "test", std::shared_ptr<spdlog::sinks::sink>(&harness_.worker(1).log, [](spdlog::sinks::sink*) {}));
  logger->warn("of no job");
  harness_.Assign();
  harness_.Connect();
  logger->warn("of the job");
  harness_.Send(1, harness_.RunStep(1, 7));  // anything that wakes the agent
  const v1::WorkerMessage message = harness_.Receive(1);
  const v1::WorkerMessage lines = message.has_log_lines() ? message : harness_.Receive(1);
  ASSERT_EQ(lines.log_lines().lines_size(), 1) << lines.ShortDebugString();
  EXPECT_EQ(lines.log_lines().lines(0).text(), "of the job");
  EXPECT_EQ(lines.log_lines().lines(0).severity(), v1::LOG_SEVERITY_WARNING);
  EXPECT_EQ(lines.log_lines().lines(0).stages(0), 1u);
  EXPECT_EQ(lines.fence().job(), "job");
}

}  // namespace
}  // namespace stagecoach
