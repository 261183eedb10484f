#include "worker/checkpoint/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>

#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/safetensors.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"
#include "worker/device/host_device.h"

namespace stagecoach {
namespace {

using testing::HasSubstr;

class FakeDevice final : public HostDevice {
 public:
  explicit FakeDevice(bool host_addressable = true) : HostDevice({}), capabilities_(HostDevice::capabilities()) {
    capabilities_.kind = "fake";
    capabilities_.host_addressable = host_addressable;
  }
  const DeviceCapabilities& capabilities() const override { return capabilities_; }
  TensorOperations& operations() override { std::abort(); }

 private:
  DeviceCapabilities capabilities_;
};

// Tensors, a step and nothing else.
class FakeStageState final : public StageState {
 public:
  template <typename T>
  void Add(const std::string& name, v1::DType dtype, std::vector<int64_t> dims, const std::vector<T>& values) {
    std::string& bytes = memory_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    StateTensor& tensor = tensors_.emplace_back();
    tensor.name = name;
    tensor.tensor = Tensor::Of(bytes.data(), dtype, {});
    for (const int64_t dim : dims) tensor.tensor.dims[static_cast<size_t>(tensor.tensor.rank++)] = dim;
  }
  StateTensor& last() { return tensors_.back(); }
  TensorDigest error_of_digest;
  Step step = Step(20);

  Step applied_step() const override { return step; }
  uint64_t num_updates() const override { return 19; }
  std::span<const StateTensor> tensors() const override { return tensors_; }
  absl::StatusOr<TensorDigest> Digest(Stream& /*stream*/, const Tensor& tensor) override {
    return DigestBytes({tensor.as<const std::byte>(), tensor.bytes()}) + error_of_digest;
  }

  const StageStateBytes& bytes() const override { return bytes_; }
  std::span<const Parameter> parameters(LayerIndex /*layer*/) const override { return {}; }
  absl::Status EnqueueZeroGradients(Stream& /*stream*/) override { return absl::OkStatus(); }
  Tensor tied_gradient() const override { return {}; }
  absl::Status EnqueueReduceTie(Stream& /*stream*/, const Tensor& /*other*/) override { return absl::OkStatus(); }
  absl::StatusOr<GradientReport> ReportGradients(Stream& /*stream*/) override { return GradientReport{}; }
  absl::Status Update(Stream& /*stream*/, const v1::CommitRecord& /*record*/) override { return absl::OkStatus(); }

 private:
  const StageStateBytes bytes_ = {};
  std::deque<std::string> memory_;
  std::vector<StateTensor> tensors_;
};

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
    return ShardWriter(files_, device, {JobId("job"), Epoch(3), Incarnation(77)})
        .Write(**stream, states, order_, may_go_on_);
  }
  absl::StatusOr<v1::ShardWritten> Write() { return Write(device_, {&state_}); }
  std::function<absl::Status()> may_go_on_ = [] { return absl::OkStatus(); };
  void ExpectNoFile() { EXPECT_TRUE(files_.List(directory_.path())->empty()); }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  FakeDevice device_;
  FakeStageState state_;
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
  FakeStageState other;
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
  FakeDevice far(false);
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

TEST_F(ShardWriterTest, StopsBeforeAnyTensorAndBeforeTheFileGetsItsName) {
  for (int allowed = 0; allowed <= 3; ++allowed) {
    may_go_on_ = [left = allowed]() mutable {
      return left-- > 0 ? absl::OkStatus() : absl::AbortedError("the lease is over");
    };
    EXPECT_EQ(Write().status().code(), absl::StatusCode::kAborted) << allowed;
    ExpectNoFile();
  }
}

}  // namespace
}  // namespace stagecoach
