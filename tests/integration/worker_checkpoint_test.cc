// Workers with a real model, told by hand what a coordinator would tell them: checkpoints behind training, and states
// restored from them at other cuts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/plan/planner.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/checkpoint_reader.h"
#include "formats/tensor_digest.h"
#include "tests/integration/small_job.h"
#include "tests/testing/worker/agent_harness.h"
#include "worker/registry/device/device_registry.h"
#include "worker/registry/model/model_registry.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

constexpr uint32_t kMicroBatches = 4;
constexpr uint32_t kMicroBatchSize = 2;

v1::CommitRecord RecordOf(uint64_t step) {
  v1::CommitRecord record = AgentHarness::Record(step);
  record.set_learning_rate(1e-3);
  record.set_loss_scale(1);
  return record;
}

std::string StateDigest(const google::protobuf::RepeatedPtrField<v1::TensorDigestReport>& reports,
                        uint64_t num_updates) {
  ModelDigest digest;
  for (const v1::TensorDigestReport& report : reports) {
    const std::vector<uint64_t> shape(report.shape().begin(), report.shape().end());
    EXPECT_TRUE(digest.Add(report.name(), report.dtype(), shape, {{report.low(), report.high()}})) << report.name();
  }
  digest.AddUpdateCount(num_updates);
  return digest.Hex();
}

// A job on so many workers, each with a stage, step by step.
class ScriptedJob {
 public:
  ScriptedJob(const v1::JobSpec& spec, uint32_t num_workers)
      : spec_(spec),
        plan_(*PlanJob(spec, std::vector<WorkerProfile>(num_workers))),
        harness_({.num_stages = num_workers}, [](uint32_t, AgentOptions& options) {
          options.device_factory = *FindDevice("cpu");
          UseModels(options);
        }) {}

  AgentHarness& harness() { return harness_; }
  uint32_t num_workers() const { return harness_.num_workers(); }

  v1::CoordinatorMessage AssignStages(uint32_t rank, uint64_t last_commit, const v1::RestoreState& restore) const {
    v1::CoordinatorMessage message;
    v1::AssignStages& assignment = *message.mutable_assign_stages();
    *assignment.mutable_spec() = spec_;
    *assignment.mutable_graph() = plan_.graph;
    *assignment.mutable_program() = plan_.programs[rank];
    assignment.set_threads(1);
    if (last_commit > 0) *assignment.mutable_last_commit() = RecordOf(last_commit);
    if (!restore.directory().empty()) *assignment.mutable_restore() = restore;
    return message;
  }
  // A new epoch; `step` is where all states must then be.
  void Assign(uint64_t last_commit, const v1::RestoreState& restore, uint64_t step) {
    ++harness_.epoch;
    v1::CoordinatorMessage connect;
    for (uint32_t rank = 0; rank < num_workers(); ++rank) harness_.Send(rank, AssignStages(rank, last_commit, restore));
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      ASSERT_TRUE(message.has_stages_prepared()) << message.ShortDebugString();
      EXPECT_EQ(message.stages_prepared().applied_step(), step);
      v1::Peer& peer = *connect.mutable_connect_peers()->add_peers();
      peer.set_incarnation(100 + rank);
      peer.set_endpoint(message.stages_prepared().endpoint());
    }
    for (uint32_t rank = 0; rank < num_workers(); ++rank) harness_.Send(rank, connect);
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      ASSERT_TRUE(message.has_peers_connected()) << message.ShortDebugString();
    }
  }

  // Trains a step; the digest of the state after it, when asked for.
  std::string Step(uint64_t step, bool snapshot = false, bool want_digests = false) {
    for (uint32_t rank = 0; rank < num_workers(); ++rank) harness_.Send(rank, RunStep(rank, step));
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      EXPECT_TRUE(message.has_step_prepared()) << message.ShortDebugString();
    }
    google::protobuf::RepeatedPtrField<v1::TensorDigestReport> digests;
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      harness_.Send(rank, AgentHarness::CommitStep(RecordOf(step), want_digests, snapshot));
    }
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      EXPECT_TRUE(message.has_step_applied()) << message.ShortDebugString();
      digests.MergeFrom(message.step_applied().digests());
    }
    return want_digests ? StateDigest(digests, step) : "";
  }

  // Trains the steps from the one after `last` to `to`; the digest after it.
  std::string TrainFrom(uint64_t last, uint64_t to) {
    for (uint64_t step = last + 1; step < to; ++step) Step(step);
    return Step(to, /*snapshot=*/false, /*want_digests=*/true);
  }

  // The checkpoint that the workers write now; where it is.
  v1::RestoreState Write(const std::string& directory, uint64_t step, bool from_snapshot) {
    FileSystem& files = FileSystem::Posix();
    const std::string checkpoint = *MakeCheckpointDirectory(files, directory, stagecoach::Step(step));
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      v1::CoordinatorMessage write = AgentHarness::WriteCheckpoint(step, checkpoint, from_snapshot);
      write.mutable_write_checkpoint()->set_file(ShardFileName(StageIndex(rank)));
      harness_.Send(rank, write);
    }
    std::vector<ShardReceipt> receipts;
    for (uint32_t rank = 0; rank < num_workers(); ++rank) {
      const v1::WorkerMessage message = harness_.Receive(rank);
      EXPECT_TRUE(message.has_shard_written()) << message.ShortDebugString();
      receipts.push_back({message.shard_written(), Incarnation(100 + rank)});
    }
    v1::CheckpointManifest manifest;
    manifest.set_version(kManifestVersion);
    manifest.set_job(harness_.job);
    manifest.set_epoch(harness_.epoch);
    manifest.set_step(step);
    manifest.set_num_updates(step);
    *manifest.mutable_spec() = spec_;
    EXPECT_TRUE(AddShards(receipts, manifest).ok());
    EXPECT_TRUE(PublishCheckpoint(files, checkpoint, manifest).ok());
    const auto verified = VerifyCheckpoint(files, checkpoint);
    EXPECT_TRUE(verified.ok()) << verified.status();
    v1::RestoreState restore;
    restore.set_directory(checkpoint);
    restore.set_manifest_digest(
        ManifestDigest(*ReadFile(files, absl::StrCat(checkpoint, "/", kManifestFileName), kMaxManifestBytes)));
    return restore;
  }

 private:
  v1::CoordinatorMessage RunStep(uint32_t rank, uint64_t step) const {
    v1::CoordinatorMessage message;
    v1::RunStep& run = *message.mutable_run_step();
    run.set_step(step);
    run.set_program_hash(plan_.programs[rank].content_hash());
    run.set_first_sample((step - 1) * kMicroBatches * kMicroBatchSize);
    run.set_loss_scale(1);
    for (uint32_t m = 0; m < kMicroBatches; ++m) {
      run.add_micro_batch_samples(kMicroBatchSize);
      run.add_loss_weight(1.0 / kMicroBatches);
    }
    return message;
  }

  const v1::JobSpec spec_;
  const PlannedJob plan_;
  AgentHarness harness_;
};

class WorkerCheckpointTest : public testing::TestWithParam<bool> {
 protected:
  WorkerCheckpointTest() {
    v1::JobSpec& spec = job_.spec();
    spec.mutable_model()->mutable_config()->set_tie_word_embeddings(GetParam());
    spec.mutable_checkpoint()->set_async(true);
    spec.mutable_checkpoint()->set_interval_steps(3);
  }
  std::string directory() { return job_.directory() + "/checkpoints"; }
  static std::string StateDigestOf(const v1::RestoreState& restore) {
    return ReadManifest(FileSystem::Posix(), restore.directory())->state_digest();
  }
  // After each step of a run on one worker that nothing interrupts; from 1.
  std::vector<std::string> DigestsOfAStraightRun(uint64_t steps) {
    ScriptedJob straight(job_.spec(), 1);
    straight.Assign(0, {}, 0);
    std::vector<std::string> digests = {""};
    for (uint64_t step = 1; step <= steps; ++step) digests.push_back(straight.Step(step, false, /*want_digests=*/true));
    return digests;
  }

  SmallJob job_;
};

TEST_P(WorkerCheckpointTest, WhatIsWrittenBehindTrainingIsTheStateOfTheSnapshotsStep) {
  const std::vector<std::string> straight = DigestsOfAStraightRun(6);
  for (const bool want_digests : {false, true}) {
    ScriptedJob job(job_.spec(), 2);
    job.Assign(0, {}, 0);
    job.Step(1);
    job.Step(2);
    job.Step(3, /*snapshot=*/true, want_digests);
    EXPECT_EQ(job.TrainFrom(3, 6), straight[6]);
    EXPECT_EQ(StateDigestOf(job.Write(directory(), 3, /*from_snapshot=*/true)), straight[3]);
    EXPECT_EQ(StateDigestOf(job.Write(directory(), 6, /*from_snapshot=*/false)), straight[6]);
  }
}

TEST_P(WorkerCheckpointTest, AnotherCutGoesOnFromItWithTheSameBits) {
  const std::vector<std::string> straight = DigestsOfAStraightRun(5);
  const std::vector<std::pair<uint32_t, uint32_t>> cuts = {{2, 1}, {1, 3}, {3, 2}};
  for (const auto& [before, after] : cuts) {
    SCOPED_TRACE(absl::StrCat(before, " stages to ", after));
    v1::RestoreState restore;
    {
      ScriptedJob first(job_.spec(), before);
      first.Assign(0, {}, 0);
      first.Step(1);
      first.Step(2);
      first.Step(3, /*snapshot=*/true);
      restore = first.Write(directory(), 3, /*from_snapshot=*/true);
    }
    ScriptedJob second(job_.spec(), after);
    second.harness().job = "another";
    second.Assign(3, restore, 3);
    EXPECT_EQ(StateDigestOf(second.Write(directory(), 3, /*from_snapshot=*/false)), straight[3]);
    EXPECT_EQ(second.TrainFrom(3, 5), straight[5]);
  }
}

TEST_P(WorkerCheckpointTest, AStateThatIsHeldAtTheLastCommitWins) {
  const std::vector<std::string> straight = DigestsOfAStraightRun(5);
  ScriptedJob job(job_.spec(), 2);
  job.Assign(0, {}, 0);
  job.Step(1);
  job.Step(2);
  job.Step(3, /*snapshot=*/true);
  const v1::RestoreState restore = job.Write(directory(), 3, /*from_snapshot=*/true);
  job.Step(4);
  job.Assign(4, restore, 4);
  EXPECT_EQ(job.TrainFrom(4, 5), straight[5]);
  job.Assign(3, restore, 3);  // back
  EXPECT_EQ(job.TrainFrom(3, 5), straight[5]);
}

TEST_P(WorkerCheckpointTest, AWorkerThatCannotRestoreSaysWhyAndHoldsNothing) {
  ScriptedJob job(job_.spec(), 2);
  job.Assign(0, {}, 0);
  job.Step(1);
  const v1::RestoreState restore = job.Write(directory(), 1, /*from_snapshot=*/false);
  v1::RestoreState wrong = restore;
  wrong.set_manifest_digest(std::string(32, '0'));
  ASSERT_TRUE(FileSystem::Posix().RemoveTree(restore.directory() + "/stage-00001.safetensors").ok());
  ScriptedJob other(job_.spec(), 2);
  const auto failure_of = [&](const v1::RestoreState& from) {
    ++other.harness().epoch;
    other.harness().Send(1, other.AssignStages(1, 1, from));
    return other.harness().Receive(1).failure();
  };
  const v1::WorkerFailure manifest = failure_of(wrong);
  EXPECT_EQ(manifest.code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_THAT(manifest.message(), HasSubstr(restore.directory() + "/manifest.json"));
  const v1::WorkerFailure shard = failure_of(restore);
  EXPECT_EQ(shard.code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_THAT(shard.message(), HasSubstr("stage-00001.safetensors"));
  const v1::WorkerFailure none = failure_of({});
  EXPECT_EQ(none.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(none.message(), HasSubstr("none is"));
  // From the beginning it can always.
  ++other.harness().epoch;
  other.harness().Send(1, other.AssignStages(1, 0, {}));
  EXPECT_TRUE(other.harness().Receive(1).has_stages_prepared());
}

TEST_P(WorkerCheckpointTest, AnAbortEndsARestoration) {
  ScriptedJob job(job_.spec(), 1);
  job.Assign(0, {}, 0);
  job.Step(1);
  const v1::RestoreState restore = job.Write(directory(), 1, /*from_snapshot=*/false);
  ScriptedJob other(job_.spec(), 1);
  AgentHarness& harness = other.harness();
  std::atomic<int> reads{0};
  std::atomic<bool> let{false};
  harness.worker(0).files.on_read = [&] {
    if (++reads < 6) return;  // behind the manifest and the header
    while (!let.load()) std::this_thread::yield();
  };
  harness.Send(0, other.AssignStages(0, 1, restore));
  while (reads.load() < 6) std::this_thread::yield();
  harness.Send(0, AgentHarness::Abort());
  harness.AwaitRead(0);
  let.store(true);
  const v1::WorkerMessage message = harness.Receive(0);
  ASSERT_TRUE(message.has_aborted()) << message.ShortDebugString();
  EXPECT_EQ(message.aborted().applied_step(), 0u);
  EXPECT_LT(reads.load(), 10);
  other.Assign(1, restore, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, WorkerCheckpointTest, testing::Bool(),
                         [](const auto& model) { return model.param ? "tied" : "untied"; });

}  // namespace
}  // namespace stagecoach
