#include "coordinator/effect_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "common/message_queue.h"
#include "coordinator/journal/memory_store.h"
#include "coordinator/testing/decide_harness.h"
#include "formats/checkpoint.h"
#include "tests/testing/checkpoint/small_checkpoint.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(20);  // never reached by a passing test

class EffectRunnerTest : public testing::Test {
 protected:
  // A directory with the shards of a checkpoint, and what its manifest is to be.
  void WriteShards(uint64_t step) {
    directory_of_shards_ = WriteSmallCheckpoint(files_, root_, step, SmallSpec());
    const auto manifest = ReadManifest(files_, directory_of_shards_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
    ASSERT_TRUE(files_.RemoveTree(directory_of_shards_ + "/manifest.json").ok());
    ASSERT_TRUE(files_.RemoveTree(root_ + "/latest").ok());
  }
  // The file thread does nothing until Let.
  void Hold() {
    ASSERT_TRUE(file_thread_.Run([held = let_.get_future().share()] { held.wait(); }).ok());
  }
  void Let() { let_.set_value(); }
  void Run(Effect effect) {
    Decision decision;
    decision.effects.push_back(std::move(effect));
    EXPECT_TRUE(runner_.Run(std::move(decision)).ok());
  }
  WriteManifest Order(uint64_t attempt) { return {JobId("job"), attempt, directory_of_shards_, manifest_}; }
  absl::Status WrittenStatus() {
    absl::StatusOr<Input> result = results_.Pop(kSoon);
    if (!result.ok()) return result.status();
    return std::get<ManifestWritten>(*result).status;
  }
  bool Exists(const std::string& path) { return files_.Open(path).ok(); }

  TemporaryDirectory directory_;
  FileSystem& files_ = FileSystem::Posix();
  const std::string root_ = directory_.Path("checkpoints");
  std::string directory_of_shards_;
  v1::CheckpointManifest manifest_;
  std::promise<void> let_;
  MessageQueue<Input> results_{16};
  State state_;
  MemoryStore store_;
  TaskThread planning_thread_{"planning"};
  TaskThread file_thread_{"files"};
  EffectRunner runner_{{.state = state_,
                        .store = store_,
                        .files = files_,
                        .planner = nullptr,
                        .wall_clock = absl::UnixEpoch,
                        .planning_thread = planning_thread_,
                        .file_thread = file_thread_,
                        .post_result = [this](Input input) { EXPECT_TRUE(results_.Push(std::move(input)).ok()); },
                        .answer = nullptr}};
};

TEST_F(EffectRunnerTest, AManifestMakesTheShardsTheNewestCheckpoint) {
  WriteShards(5);
  Run(Order(1));
  const absl::Status written = WrittenStatus();
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(*FindCheckpoint(files_, root_), directory_of_shards_);
  EXPECT_TRUE(Exists(root_ + "/latest"));
}

TEST_F(EffectRunnerTest, AnAbandonedOneIsNeitherWrittenNorTheNewest) {
  WriteShards(5);
  Hold();
  Run(Order(1));
  Run(AbandonManifest{JobId("job"), 1});
  Let();
  EXPECT_EQ(WrittenStatus().code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(Exists(directory_of_shards_ + "/manifest.json"));
  EXPECT_FALSE(Exists(root_ + "/latest"));
}

TEST_F(EffectRunnerTest, OnlyTheAttemptThatIsNamedIsAbandoned) {
  WriteShards(5);
  Hold();
  Run(Order(2));
  Run(AbandonManifest{JobId("job"), 1});
  Run(AbandonManifest{JobId("other"), 2});
  Let();
  EXPECT_TRUE(WrittenStatus().ok());
}

}  // namespace
}  // namespace stagecoach
