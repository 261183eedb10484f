#include "worker/checkpoint/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/safetensors.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"
#include "tests/testing/worker/tensors_only_state.h"
#include "worker/checkpoint/state_source.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class ShardWriterTest : public testing::Test {
 protected:
  ShardWriterTest() {
    state_.Add<float>("b", v1::DTYPE_F32, {2, 2}, {1, 2, 3, 4});
    state_.Add<float>("a", v1::DTYPE_F32, {3}, {5, 6, 7});
    state_.Add<double>("a.exp_avg", v1::DTYPE_F64, {2}, {0.5, 0.25});
    state_.last().optimizer_state = true;
    state_.Add<float>("tied", v1::DTYPE_F32, {1}, {9});
    state_.last().owned = false;
    order_.set_step(20);
    order_.set_directory(directory_.path());
    order_.set_file("stage-00000.safetensors");
  }
  absl::StatusOr<v1::ShardWritten> Write(Device& device, std::vector<StageState*> states) {
    const auto stream = device.CreateStream();
    EXPECT_TRUE(stream.ok());
    const auto source = StateSource::Create(device, **stream, states, Step(order_.step()));
    if (!source.ok()) return source.status();
    return ShardWriter(files_, {JobId("job"), Epoch(3), Incarnation(77)}).Write(**source, order_, may_go_on_);
  }
  absl::StatusOr<v1::ShardWritten> Write() { return Write(device_, {&state_}); }
  std::function<absl::Status()> may_go_on_ = [] { return absl::OkStatus(); };
  void ExpectNoFile() { EXPECT_TRUE(files_.List(directory_.path())->empty()); }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  HostMemoryDevice device_;
  TensorsOnlyState state_;
  v1::WriteCheckpoint order_;
};

TEST_F(ShardWriterTest, WritesOwnedTensorsWithTheirBytesAndMetadata) {
  const auto written = Write();
  ASSERT_TRUE(written.ok()) << written.status();
  const auto reader = SafetensorsReader::Open(files_, directory_.Path("stage-00000.safetensors"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(
      reader->metadata(),
      (SafetensorsMetadata{
          {"format", "stagecoach-shard-1"}, {"job", "job"}, {"epoch", "3"}, {"incarnation", "77"}, {"step", "20"}}));
  ASSERT_EQ(reader->tensors().size(), 3u);
  EXPECT_EQ(reader->Find("tied"), nullptr);
  EXPECT_EQ(reader->Find("a.exp_avg")->type, SafetensorsType::kF64);
  EXPECT_EQ(reader->Find("b")->shape, (std::vector<uint64_t>{2, 2}));
  float values[4];
  ASSERT_TRUE(reader->Read(*reader->Find("b"), 0, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_THAT(values, testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(ShardWriterTest, TheReceiptMakesACheckpointThatVerifies) {
  const auto checkpoint = MakeCheckpointDirectory(files_, directory_.path(), Step(20));
  ASSERT_TRUE(checkpoint.ok());
  order_.set_directory(*checkpoint);
  const auto written = Write();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->step(), 20u);
  EXPECT_EQ(written->tensors_size(), 3);
  v1::CheckpointManifest manifest;
  manifest.set_version(kManifestVersion);
  manifest.set_job("job");
  manifest.set_epoch(3);
  manifest.set_step(20);
  manifest.set_num_updates(19);
  const std::vector<ShardReceipt> receipts = {{*written, Incarnation(77)}};
  ASSERT_TRUE(AddShards(receipts, manifest).ok());
  ASSERT_TRUE(PublishCheckpoint(files_, *checkpoint, manifest).ok());
  const auto verified = VerifyCheckpoint(files_, directory_.path());
  ASSERT_TRUE(verified.ok()) << verified.status();
  ModelDigest parameters;
  for (const StateTensor& tensor : state_.tensors()) {
    if (tensor.optimizer_state || !tensor.owned) continue;
    const std::vector<uint64_t> shape(tensor.tensor.dims.begin(), tensor.tensor.dims.begin() + tensor.tensor.rank);
    parameters.Add(tensor.name, tensor.tensor.dtype, shape,
                   DigestBytes({tensor.tensor.as<const std::byte>(), tensor.tensor.bytes()}));
  }
  EXPECT_EQ(verified->digest, parameters.Hex());
}

TEST_F(ShardWriterTest, WritesAllStagesOfAWorkerIntoOneFile) {
  TensorsOnlyState other;
  other.Add<float>("c", v1::DTYPE_F32, {1}, {8});
  const auto written = Write(device_, {&state_, &other});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->tensors_size(), 4);
  other.Add<float>("a", v1::DTYPE_F32, {1}, {8});
  const absl::Status status = Write(device_, {&state_, &other}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"a\": two stages own it"));
}

TEST_F(ShardWriterTest, RefusesAnotherStep) {
  state_.step = Step(19);
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kFailedPrecondition);
  ExpectNoFile();
}

TEST_F(ShardWriterTest, RefusesMemoryThatTheHostCannotRead) {
  HostMemoryDevice far(false);
  EXPECT_EQ(Write(far, {&state_}).status().code(), absl::StatusCode::kFailedPrecondition);
  ExpectNoFile();
}

TEST_F(ShardWriterTest, RefusesAPathAsFileName) {
  for (const char* file : {"", "..", "a/b", "/tmp/x"}) {
    order_.set_file(file);
    EXPECT_EQ(Write().status().code(), absl::StatusCode::kInvalidArgument) << file;
  }
}

TEST_F(ShardWriterTest, ADigestThatIsNotOfTheBytesIsDataLoss) {
  state_.error_of_digest = {{1, 0}};
  const absl::Status status = Write().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"a.exp_avg\""));
  ExpectNoFile();
}

TEST_F(ShardWriterTest, AFullDiskAndInputOutputErrorsLeaveNoFile) {
  files_.LimitFreeBytes(300);
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kResourceExhausted);
  ExpectNoFile();
  files_.LimitFreeBytes(1 << 20);
  files_.Add({FileOperation::kCommit, "stage-00000", 0, absl::UnknownError("Input/output error")});
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kUnknown);
  ExpectNoFile();
  files_.Add({FileOperation::kCreate, "stage-00000", 0, absl::PermissionDeniedError("Permission denied")});
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ShardWriterTest, ReservesTheSpaceBeforeItWrites) {
  files_.Add({FileOperation::kReserve, "stage-00000", 0, absl::ResourceExhaustedError("No space left on device")});
  files_.Add({FileOperation::kAppend, "stage-00000", 0, absl::UnknownError("nothing may be written")});
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kResourceExhausted);
  ExpectNoFile();
}

TEST_F(ShardWriterTest, AnErrorInTheMiddleLeavesNoFile) {
  files_.Add({FileOperation::kAppend, "stage-00000", 2, absl::UnknownError("Input/output error")});
  const absl::Status status = Write().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stage-00000.safetensors: Input/output error"));
  ExpectNoFile();
}

TEST_F(ShardWriterTest, WhoMayNoLongerWriteWhenAllIsOnDiskGetsNoFile) {
  bool synced = false;
  may_go_on_ = [&] { return synced ? absl::AbortedError("the lease is over") : absl::OkStatus(); };
  files_.on_sync = [&] { synced = true; };
  EXPECT_EQ(Write().status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(synced);
  ExpectNoFile();
}

TEST_F(ShardWriterTest, WritesALargeTensorInPiecesWithOneDigest) {
  TensorsOnlyState large;
  std::vector<float> values(3 * (1 << 18) + 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  large.Add<float>("large", v1::DTYPE_F32, {static_cast<int64_t>(values.size())}, values);
  int asked = 0;
  may_go_on_ = [&] {
    ++asked;
    return absl::OkStatus();
  };
  const auto written = Write(device_, {&large});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(asked, 6);  // before the file, four pieces, before its name
  const TensorDigest digest = DigestBytes(std::as_bytes(std::span(values)));
  EXPECT_EQ(written->tensors(0).low(), digest.words[0]);
  EXPECT_EQ(written->tensors(0).high(), digest.words[1]);
  const auto reader = SafetensorsReader::Open(files_, directory_.Path("stage-00000.safetensors"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> read(values.size());
  ASSERT_TRUE(reader->Read(*reader->Find("large"), 0, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read, values);
}

TEST_F(ShardWriterTest, StopsBeforeAnyTensorAndBeforeTheFileGetsItsName) {
  // Before the file is made, each of the tensors, and the name.
  for (int allowed = 0; allowed <= 4; ++allowed) {
    may_go_on_ = [left = allowed]() mutable {
      return left-- > 0 ? absl::OkStatus() : absl::AbortedError("the lease is over");
    };
    EXPECT_EQ(Write().status().code(), absl::StatusCode::kAborted) << allowed;
    ExpectNoFile();
  }
}

}  // namespace
}  // namespace stagecoach
