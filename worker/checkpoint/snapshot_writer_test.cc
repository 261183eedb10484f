#include "worker/checkpoint/snapshot_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/message_queue.h"
#include "formats/safetensors.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/tensors_only_state.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);  // never reached by a passing test

class SnapshotWriterTest : public testing::Test {
 protected:
  SnapshotWriterTest() {
    state_.Add<float>("b", v1::DTYPE_F32, {2, 2}, {1, 2, 3, 4});
    state_.Add<float>("b.exp_avg", v1::DTYPE_F32, {2, 2}, {5, 6, 7, 8});
    state_.last().optimizer_state = true;
    state_.Add<float>("tied", v1::DTYPE_F32, {1}, {9});
    state_.last().owned = false;
    other_.Add<float>("a", v1::DTYPE_F32, {1}, {10});
  }
  void Allocate() {
    const absl::Status allocated = writer_.Allocate(device_, states_);
    ASSERT_TRUE(allocated.ok()) << allocated;
  }
  absl::Status Take(std::map<std::string, TensorDigest> digests = {}) {
    return writer_.Take(*stream_, std::move(digests));
  }
  void Write(uint64_t step) {
    SnapshotWriter::Order order{
        .write = {},
        .identity = {JobId("job"), Epoch(3), Incarnation(77)},
        .may_go_on = [] { return absl::OkStatus(); },
        .on_end = [this](absl::StatusOr<v1::ShardWritten> end) { EXPECT_TRUE(ends_.Push(std::move(end)).ok()); }};
    order.write.set_step(step);
    order.write.set_directory(directory_.path());
    order.write.set_file("shard");
    if (const absl::Status begun = writer_.Write(std::move(order)); !begun.ok()) {
      EXPECT_TRUE(ends_.Push(begun).ok());
    }
  }
  absl::StatusOr<v1::ShardWritten> End() {
    absl::StatusOr<absl::StatusOr<v1::ShardWritten>> end = ends_.Pop(kSoon);
    EXPECT_TRUE(end.ok()) << "nobody says what became of the shard";
    return end.ok() ? *std::move(end) : absl::InternalError("nothing");
  }
  // Every value of the state, as training would change them.
  void ChangeState(float to) {
    for (const StateTensor& tensor : state_.tensors()) {
      for (int64_t i = 0; i < tensor.tensor.num_elements(); ++i) tensor.tensor.as<float>()[i] = to;
    }
  }
  std::vector<float> ValuesInFile(const std::string& name) {
    const auto reader = SafetensorsReader::Open(files_, directory_.Path("shard"));
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok() || reader->Find(name) == nullptr) return {};
    std::vector<float> values(reader->Find(name)->bytes() / sizeof(float));
    EXPECT_TRUE(reader->Read(*reader->Find(name), 0, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  // Holds the thread that writes, in the middle of the file, until Let.
  void Hold() {
    files_.on_sync = [this] {
      held_.store(true);
      while (!let_.load()) std::this_thread::yield();
    };
  }
  void AwaitHeld() {
    while (!held_.load()) std::this_thread::yield();
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  HostMemoryDevice device_;
  const std::unique_ptr<Stream> stream_ = *device_.CreateStream();
  TensorsOnlyState state_, other_;
  std::vector<StageState*> states_ = {&state_, &other_};
  std::atomic<bool> held_{false}, let_{false};
  MessageQueue<absl::StatusOr<v1::ShardWritten>> ends_{16};
  SnapshotWriter writer_{files_};  // last: its thread uses all of the above
};

TEST_F(SnapshotWriterTest, WritesTheStateAsItWasWhenTheSnapshotWasTaken) {
  Allocate();
  ASSERT_TRUE(Take().ok());
  ChangeState(-1);
  state_.step = other_.step = Step(21);
  Write(20);
  const auto end = End();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->step(), 20u);
  EXPECT_EQ(end->file(), "shard");
  ASSERT_EQ(end->tensors_size(), 3);
  EXPECT_THAT(ValuesInFile("a"), ElementsAre(10));
  EXPECT_THAT(ValuesInFile("b"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesInFile("b.exp_avg"), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(ValuesInFile("tied"), ElementsAre());
  Write(20);  // a snapshot is for one shard
  EXPECT_EQ(End().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SnapshotWriterTest, ASnapshotIsOfTheStepThatWasTakenLast) {
  Allocate();
  Write(20);
  const absl::Status none = End().status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no snapshot of step 20"));
  ASSERT_TRUE(Take().ok());
  state_.step = other_.step = Step(21);
  ChangeState(-1);
  ASSERT_TRUE(Take().ok());
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kFailedPrecondition);
  Write(21);
  EXPECT_TRUE(End().ok());
  EXPECT_THAT(ValuesInFile("b"), ElementsAre(-1, -1, -1, -1));
}

TEST_F(SnapshotWriterTest, StagesAtDifferentStepsOrNoBufferAreNoSnapshot) {
  EXPECT_EQ(Take().code(), absl::StatusCode::kFailedPrecondition);
  Allocate();
  other_.step = Step(19);
  EXPECT_EQ(Take().code(), absl::StatusCode::kFailedPrecondition);
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SnapshotWriterTest, WhileOneIsWrittenThereIsNoOther) {
  Allocate();
  ASSERT_TRUE(Take().ok());
  Hold();
  Write(20);
  AwaitHeld();
  EXPECT_TRUE(writer_.is_writing());
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Take().code(), absl::StatusCode::kResourceExhausted);
  ChangeState(-1);
  let_.store(true);
  EXPECT_TRUE(End().ok());
  EXPECT_THAT(ValuesInFile("b"), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(Take().ok());
}

TEST_F(SnapshotWriterTest, StoppedWhileWritingLeavesNoFileAndGivesTheBufferBack) {
  Allocate();
  ASSERT_TRUE(Take().ok());
  Hold();
  Write(20);
  AwaitHeld();
  EXPECT_EQ(writer_.Stop(absl::Milliseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(writer_.is_writing());
  let_.store(true);
  ASSERT_TRUE(writer_.Stop(kSoon).ok());
  EXPECT_EQ(End().status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(files_.List(directory_.path())->empty());
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Take().ok());
  Write(20);
  EXPECT_TRUE(End().ok());
  writer_.Free();
  EXPECT_EQ(Take().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SnapshotWriterTest, DroppedItCannotBeWritten) {
  Allocate();
  ASSERT_TRUE(Take().ok());
  writer_.Drop();
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SnapshotWriterTest, ADigestOfTheDeviceIsCompared) {
  Allocate();
  const auto digest = [](std::vector<float> values) { return DigestBytes(std::as_bytes(std::span(values))); };
  ASSERT_TRUE(Take({{"b", digest({1, 2, 3, 4})}}).ok());
  Write(20);
  EXPECT_TRUE(End().ok());
  ASSERT_TRUE(Take({{"b", digest({1, 2, 3, 5})}}).ok());
  Write(20);
  const absl::Status status = End().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"b\""));
}

TEST_F(SnapshotWriterTest, AFullDiskIsAnAnswerAndTheNextOneIsWritten) {
  Allocate();
  ASSERT_TRUE(Take().ok());
  files_.LimitFreeBytes(10);
  Write(20);
  EXPECT_EQ(End().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(files_.List(directory_.path())->empty());
  files_.LimitFreeBytes(1 << 20);
  ASSERT_TRUE(Take().ok());
  Write(20);
  EXPECT_TRUE(End().ok());
}

TEST_F(SnapshotWriterTest, TheBufferHasTheBytesOfWhatIsOwned) {
  const auto snapshot = Snapshot::Create(device_, states_);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ((*snapshot)->bytes(), 4u * (4 + 4 + 1));
}

}  // namespace
}  // namespace stagecoach
