// Shards that are written behind training, and what ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "formats/safetensors.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/agent_harness.h"
#include "worker/agent/agent.h"

namespace stagecoach {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);  // never reached by a passing test
constexpr char kShard[] = "shard.safetensors";

class AgentCheckpointTest : public testing::Test {
 protected:
  AgentCheckpointTest() {
    harness_.spec.mutable_checkpoint()->set_async(true);
    harness_.spec.mutable_checkpoint()->set_interval_steps(1);
  }
  ~AgentCheckpointTest() override {
    let_.store(true);
    hold_.store(false);
  }
  void Begin() {
    harness_.Assign();
    harness_.Connect();
  }
  // A step at whose end worker 0 takes a snapshot; its digests.
  v1::StepApplied StepWithSnapshot(uint64_t step, bool want_digests = false) {
    harness_.PrepareStep(step);
    harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(step), want_digests, /*snapshot=*/true));
    harness_.Send(1, AgentHarness::CommitStep(AgentHarness::Record(step)));
    EXPECT_TRUE(harness_.Receive(1).has_step_applied());
    const v1::WorkerMessage applied = harness_.Receive(0);
    EXPECT_TRUE(applied.has_step_applied()) << applied.ShortDebugString();
    return applied.step_applied();
  }
  void Step(uint64_t step) {
    harness_.PrepareStep(step);
    harness_.Commit(step);
  }
  void Write(uint64_t step, bool from_snapshot = true) {
    harness_.Send(0, AgentHarness::WriteCheckpoint(step, directory_.path(), from_snapshot));
  }
  v1::ShardWritten ReceiveWritten() {
    const v1::WorkerMessage message = harness_.Receive(0);
    EXPECT_TRUE(message.has_shard_written()) << message.ShortDebugString();
    EXPECT_EQ(message.fence().epoch(), harness_.epoch);
    return message.shard_written();
  }
  void ExpectShardFailed(uint64_t step, absl::StatusCode code, const std::string& text) {
    const v1::WorkerMessage message = harness_.Receive(0);
    ASSERT_TRUE(message.has_shard_failed()) << message.ShortDebugString();
    EXPECT_EQ(message.shard_failed().step(), step);
    EXPECT_EQ(message.shard_failed().file(), kShard);
    EXPECT_EQ(message.shard_failed().code(), static_cast<int>(code)) << message.shard_failed().message();
    EXPECT_THAT(message.shard_failed().message(), HasSubstr(text));
  }
  std::vector<float> ValuesInFile() {
    const auto reader = SafetensorsReader::Open(FileSystem::Posix(), directory_.Path(kShard));
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<float> values(4);
    if (!reader.ok()) return values;
    EXPECT_TRUE(reader->Read(*reader->Find("w0"), 0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  std::vector<std::string> Files() { return *FileSystem::Posix().List(directory_.path()); }

  // Holds the thread that writes when all is on disk and nothing has its name, until LetWrite.
  void HoldWrite() {
    harness_.worker(0).files.on_sync = [this] {
      writing_.store(true);
      while (!let_.load()) std::this_thread::yield();
    };
  }
  void AwaitWriting() {
    while (!writing_.load()) std::this_thread::yield();
  }
  // Holds the forward of worker 0 until LetForward.
  void HoldForward() {
    harness_.worker(0).hook = [this](const char*, const MicroBatch& micro_batch) {
      running_.store(true);
      while (hold_.load() && micro_batch.stream->CheckNotCancelled().ok()) std::this_thread::yield();
      return micro_batch.stream->CheckNotCancelled();
    };
  }

  TemporaryDirectory directory_;
  std::atomic<bool> writing_{false}, let_{false}, running_{false}, hold_{false};
  AgentHarness harness_{{.num_stages = 2, .num_micro_batches = 3}};
};

TEST_F(AgentCheckpointTest, ASnapshotIsWrittenBehindMoreSteps) {
  Begin();
  const v1::StepApplied applied = StepWithSnapshot(1, /*want_digests=*/true);
  for (uint64_t step = 2; step <= 4; ++step) Step(step);
  Write(1);
  const v1::ShardWritten written = ReceiveWritten();
  EXPECT_EQ(written.step(), 1u);
  ASSERT_EQ(written.tensors_size(), 1);
  EXPECT_EQ(written.tensors(0).SerializeAsString(), applied.digests(0).SerializeAsString());
  EXPECT_THAT(ValuesInFile(), Each(-0.5f));
  EXPECT_FLOAT_EQ(harness_.worker(0).state->values[0], -2);
  Step(5);
}

TEST_F(AgentCheckpointTest, IsWrittenWhileAStepRuns) {
  HoldForward();
  Begin();
  StepWithSnapshot(1);
  hold_.store(true);
  running_.store(false);
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, harness_.RunStep(rank, 2));
  while (!running_.load()) std::this_thread::yield();
  Write(1);
  EXPECT_EQ(ReceiveWritten().step(), 1u);
  hold_.store(false);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(harness_.Receive(rank).has_step_prepared());
}

TEST_F(AgentCheckpointTest, AnOrderThatComesBeforeItsCommitIsDoneWaitsForIt) {
  harness_.worker(0).on_update = [this] {
    running_.store(true);
    while (hold_.load()) std::this_thread::yield();
    return absl::OkStatus();
  };
  Begin();
  harness_.PrepareStep(1);
  hold_.store(true);
  harness_.Send(0, AgentHarness::CommitStep(AgentHarness::Record(1), /*want_digests=*/false, /*snapshot=*/true));
  harness_.Send(0, harness_.RunStep(0, 2));
  Write(1);
  while (!running_.load()) std::this_thread::yield();
  harness_.AwaitRead(0);
  EXPECT_TRUE(harness_.IsQuiet(0));
  Write(1);
  ExpectShardFailed(1, absl::StatusCode::kResourceExhausted, "to be written already");
  hold_.store(false);
  EXPECT_TRUE(harness_.Receive(0).has_step_applied());
  // Not behind the step, for which the peer is missing.
  EXPECT_EQ(ReceiveWritten().step(), 1u);
}

TEST_F(AgentCheckpointTest, WithoutASnapshotOfTheStepTheShardFailsAndTheJobGoesOn) {
  Begin();
  Step(1);
  Write(1);
  ExpectShardFailed(1, absl::StatusCode::kFailedPrecondition, "no snapshot of step 1");
  StepWithSnapshot(2);
  Write(1);
  ExpectShardFailed(1, absl::StatusCode::kFailedPrecondition, "no snapshot of step 1");
  Write(2);
  EXPECT_EQ(ReceiveWritten().step(), 2u);
  Step(3);
}

TEST_F(AgentCheckpointTest, AJobThatTakesNoSnapshotsCommitsAllTheSame) {
  harness_.spec.mutable_checkpoint()->set_async(false);
  Begin();
  EXPECT_EQ(StepWithSnapshot(1).step(), 1u);
  Write(1);
  ExpectShardFailed(1, absl::StatusCode::kFailedPrecondition, "no snapshot of step 1");
  Step(2);
}

TEST_F(AgentCheckpointTest, AFullDiskAndBrokenOnesEndTheShardAndNotTheJob) {
  FaultFileSystem& files = harness_.worker(0).files;
  Begin();
  uint64_t step = 0;
  for (const bool from_snapshot : {true, false}) {
    files.LimitFreeBytes(10);
    StepWithSnapshot(++step);
    Write(step, from_snapshot);
    ExpectShardFailed(step, absl::StatusCode::kResourceExhausted, "No space left on device");
    files.LimitFreeBytes(1 << 20);
    StepWithSnapshot(++step);
    Write(step, from_snapshot);
    EXPECT_EQ(ReceiveWritten().step(), step);
    ASSERT_TRUE(files.RemoveTree(directory_.Path(kShard)).ok());
  }
  files.Add({FileOperation::kAppend, kShard, 1, absl::UnknownError("Input/output error")});
  for (const bool from_snapshot : {true, false}) {
    StepWithSnapshot(++step);
    Write(step, from_snapshot);
    ExpectShardFailed(step, absl::StatusCode::kUnknown, "Input/output error");
  }
  EXPECT_TRUE(Files().empty());
  Step(++step);
}

TEST_F(AgentCheckpointTest, OneShardIsWrittenAtATime) {
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  Write(1);
  AwaitWriting();
  for (const bool from_snapshot : {true, false}) {
    Write(1, from_snapshot);
    ExpectShardFailed(1, absl::StatusCode::kResourceExhausted, "being written");
  }
  StepWithSnapshot(2);  // which is not taken
  let_.store(true);
  EXPECT_EQ(ReceiveWritten().step(), 1u);
  EXPECT_THAT(ValuesInFile(), Each(-0.5f));
  Write(2);
  ExpectShardFailed(2, absl::StatusCode::kFailedPrecondition, "no snapshot of step 2");
}

TEST_F(AgentCheckpointTest, AnAbortEndsItWithoutWaitingForTheDisk) {
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  Write(1);
  AwaitWriting();
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Send(rank, AgentHarness::Abort(AgentHarness::Record(1)));
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(harness_.Receive(rank).has_aborted());
  let_.store(true);
  ++harness_.epoch;
  harness_.Assign(AgentHarness::Record(1));
  EXPECT_TRUE(Files().empty());
  harness_.Connect();
  Write(1);  // of an epoch that is over
  ExpectShardFailed(1, absl::StatusCode::kFailedPrecondition, "no snapshot of step 1");
  EXPECT_EQ(harness_.worker(0).num_states, 1);
  StepWithSnapshot(2);
  Write(2);
  EXPECT_EQ(ReceiveWritten().step(), 2u);
}

TEST_F(AgentCheckpointTest, ANewAssignmentEndsItAndAReleaseToo) {
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  Write(1);
  AwaitWriting();
  ++harness_.epoch;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Send(rank, harness_.AssignStages(rank, AgentHarness::Record(1)));
    harness_.AwaitRead(rank);
  }
  let_.store(true);
  for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(harness_.Receive(rank).has_stages_prepared());
  EXPECT_TRUE(Files().empty());

  writing_.store(false);
  let_.store(false);
  ++harness_.epoch;
  harness_.Assign(AgentHarness::Record(1));
  harness_.Connect();
  StepWithSnapshot(2);
  Write(2);
  AwaitWriting();
  v1::CoordinatorMessage release;
  release.mutable_release();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    harness_.Send(rank, release);
    harness_.AwaitRead(rank);
  }
  let_.store(true);
  harness_.job = "other";
  harness_.Assign();
  EXPECT_TRUE(Files().empty());
  EXPECT_EQ(harness_.worker(0).num_states, 2);
}

TEST_F(AgentCheckpointTest, WithoutALeaseNoFileGetsItsName) {
  harness_.welcome.mutable_lease()->set_seconds(3);
  harness_.welcome.mutable_heartbeat_interval()->set_nanos(250'000'000);
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  harness_.Break(0);
  harness_.Accept(0);
  harness_.Welcome(0);
  Write(1);
  AwaitWriting();
  // Heartbeats are not delayed by it, and nobody answers them.
  harness_.clock.Advance(absl::Milliseconds(250));
  EXPECT_TRUE(harness_.Receive(0).has_heartbeat());
  harness_.clock.Advance(absl::Seconds(3));
  let_.store(true);
  harness_.Accept(0);
  harness_.Welcome(0);
  ++harness_.epoch;
  harness_.Send(0, harness_.AssignStages(0, AgentHarness::Record(1)));
  v1::WorkerMessage message = harness_.Receive(0);
  if (message.has_shard_failed()) {  // unless the new epoch came first
    EXPECT_EQ(message.shard_failed().code(), static_cast<int>(absl::StatusCode::kAborted));
    message = harness_.Receive(0);
  }
  EXPECT_TRUE(message.has_stages_prepared()) << message.ShortDebugString();
  EXPECT_TRUE(Files().empty());
}

TEST_F(AgentCheckpointTest, WithoutASessionItIsFinishedAndToldToTheNextOne) {
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  Write(1);
  AwaitWriting();
  harness_.Break(0);
  EXPECT_EQ(harness_.Accept(0).held().applied_step(), 1u);
  let_.store(true);
  while (Files().empty() || Files().front() != kShard) std::this_thread::yield();
  harness_.Welcome(0);
  EXPECT_EQ(ReceiveWritten().step(), 1u);
}

TEST_F(AgentCheckpointTest, AWorkerThatLeavesDoesNotWaitForTheDisk) {
  HoldWrite();
  Begin();
  StepWithSnapshot(1);
  Write(1);
  AwaitWriting();
  harness_.worker(0).agent->Leave("a test");
  EXPECT_TRUE(harness_.Receive(0).has_leaving());
  v1::CoordinatorMessage dismiss;
  dismiss.mutable_dismiss();
  harness_.Send(0, dismiss);
  const std::optional<absl::Status> end = harness_.worker(0).agent->Wait(kSoon);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->ok()) << *end;
  let_.store(true);
  harness_.worker(0).agent.reset();
  EXPECT_TRUE(Files().empty());
}

// Records what is allocated for the stages.
class AllocationObserver final : public WorkerObserver {
 public:
  void OnSession(uint64_t, bool) override {}
  void OnStagesPrepared(const JobId&, const v1::StageProgram&, const StageBytes& allocated) override {
    bytes = allocated;
  }
  void OnRun(const JobId&, const v1::StageProgram&, const RunReport&) override {}
  void OnReleased() override {}

  StageBytes bytes;  // read when the worker has answered
};

TEST(AgentObserverTest, HearsOfTheBufferForSnapshots) {
  AllocationObserver observer;
  AgentHarness harness({.num_stages = 2, .num_micro_batches = 3}, [&observer](uint32_t rank, AgentOptions& options) {
    if (rank == 0) options.observer = &observer;
  });
  harness.Assign();
  EXPECT_GT(observer.bytes.state, 0u);
  EXPECT_EQ(observer.bytes.snapshot, 0u);
  harness.spec.mutable_checkpoint()->set_async(true);
  harness.spec.mutable_checkpoint()->set_interval_steps(1);
  ++harness.epoch;
  harness.Assign();
  EXPECT_EQ(observer.bytes.snapshot, 4 * sizeof(float));  // the fake stage's only tensor
}

}  // namespace
}  // namespace stagecoach
