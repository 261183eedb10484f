#include "formats/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "formats/checkpoint_manifest.h"
#include "formats/checkpoint_reader.h"
#include "formats/safetensors.h"
#include "formats/tensor_digest.h"
#include "tests/testing/fault_file_system.h"
#include "tests/testing/temporary_directory.h"

namespace stagecoach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct TestTensor {
  std::string name;
  std::string bytes;
  bool optimizer_state = false;
};

class CheckpointTest : public testing::Test {
 protected:
  // Writes a shard as a worker would.
  ShardReceipt WriteShard(const std::string& checkpoint, uint32_t stage, uint64_t step,
                          const std::vector<TestTensor>& tensors) {
    ShardReceipt receipt{{}, Incarnation(100 + stage)};
    std::vector<SafetensorsWriter::Declaration> declarations;
    for (const TestTensor& tensor : tensors) {
      const TensorDigest digest = DigestBytes(std::as_bytes(std::span(tensor.bytes)));
      v1::TensorDigestReport& report = *receipt.written.add_tensors();
      report.set_name(tensor.name);
      report.set_dtype(v1::DTYPE_U8);
      report.add_shape(tensor.bytes.size());
      report.set_low(digest.words[0]);
      report.set_high(digest.words[1]);
      report.set_optimizer_state(tensor.optimizer_state);
      declarations.push_back({tensor.name, SafetensorsType::kU8, {tensor.bytes.size()}});
    }
    receipt.written.set_step(step);
    receipt.written.set_file(ShardFileName(StageIndex(stage)));
    auto writer = SafetensorsWriter::Create(files_, checkpoint + "/" + receipt.written.file(),
                                            {{"format", "stagecoach-shard-1"},
                                             {"job", "job"},
                                             {"epoch", "3"},
                                             {"step", absl::StrCat(step)},
                                             {"incarnation", absl::StrCat(receipt.writer.value())}},
                                            declarations);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const TestTensor& tensor : tensors) {
      EXPECT_TRUE((*writer)->Append(std::as_bytes(std::span(tensor.bytes))).ok());
    }
    const auto written = (*writer)->Commit();
    EXPECT_TRUE(written.ok()) << written.status();
    receipt.written.set_bytes(written->bytes);
    receipt.written.set_digest(written->digest);
    return receipt;
  }

  v1::CheckpointManifest WriteShards(const std::string& checkpoint, uint64_t step) {
    const std::vector<ShardReceipt> receipts = {
        WriteShard(checkpoint, 0, step, {{"a", "0123456"}, {"a.exp_avg", std::string(moment_bytes_, 'm'), true}}),
        WriteShard(checkpoint, 1, step, {{"b", absl::StrCat("step", step)}, {"empty", ""}})};
    v1::CheckpointManifest manifest;
    manifest.set_version(kManifestVersion);
    manifest.set_job("job");
    manifest.set_epoch(3);
    manifest.set_step(step);
    manifest.set_num_updates(step);
    EXPECT_TRUE(AddShards(receipts, manifest).ok());
    return manifest;
  }

  // The path of a complete checkpoint.
  std::string Write(uint64_t step) {
    const auto checkpoint = MakeCheckpointDirectory(files_, root_, Step(step));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    const absl::Status status = PublishCheckpoint(files_, *checkpoint, WriteShards(*checkpoint, step));
    EXPECT_TRUE(status.ok()) << status;
    return *checkpoint;
  }

  static void FlipBit(const std::string& path, uint64_t at, int bit = 0) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ (1 << bit)));
    ASSERT_TRUE(file.good());
  }

  void ExpectDataLoss(const std::string& checkpoint, const std::string& part, const std::string& other_part = "") {
    const absl::Status status = VerifyCheckpoint(files_, checkpoint).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_THAT(std::string(status.message()), HasSubstr(other_part));
  }

  TemporaryDirectory directory_;
  FaultFileSystem files_;
  size_t moment_bytes_ = 3'000'000;  // several pieces of reading
  const std::string root_ = directory_.Path("checkpoints");
};

TEST_F(CheckpointTest, ReadsSingleTensorsWhereverTheyLie) {
  const std::string checkpoint = Write(20);
  const std::string manifest_text = *ReadFile(files_, checkpoint + "/" + kManifestFileName, kMaxManifestBytes);
  const auto reader = CheckpointReader::Open(files_, checkpoint, ManifestDigest(manifest_text));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto read = [&](const std::string& name) {
    std::string bytes;
    const absl::Status status = (*reader)->Read(
        *FindCheckpointTensor((*reader)->manifest(), name), [&](uint64_t offset, std::span<const std::byte> piece) {
          EXPECT_EQ(offset, bytes.size());
          EXPECT_LE(piece.size(), CheckpointReader::kPieceBytes);
          bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
          return absl::OkStatus();
        });
    return status.ok() ? bytes : status.ToString();
  };
  EXPECT_EQ(read("b"), "step20");
  EXPECT_EQ(read("a.exp_avg"), std::string(moment_bytes_, 'm'));
  EXPECT_EQ(read("a"), "0123456");
  EXPECT_EQ(read("empty"), "");
  EXPECT_EQ(FindCheckpointTensor((*reader)->manifest(), "c"), nullptr);
  EXPECT_EQ((*reader)->PathOf(*FindCheckpointTensor((*reader)->manifest(), "b")),
            checkpoint + "/stage-00001.safetensors");

  const absl::Status ended =
      (*reader)->Read((*reader)->manifest().tensors(1),
                      [](uint64_t, std::span<const std::byte>) { return absl::AbortedError("enough"); });
  EXPECT_EQ(ended, absl::AbortedError("enough"));
}

TEST_F(CheckpointTest, ReadsOnlyTheManifestThatWasVerified) {
  const std::string checkpoint = Write(20);
  const std::string path = checkpoint + "/" + kManifestFileName;
  const std::string digest = ManifestDigest(*ReadFile(files_, path, kMaxManifestBytes));
  EXPECT_TRUE(CheckpointReader::Open(files_, checkpoint, digest).ok());
  EXPECT_EQ(CheckpointReader::Open(files_, checkpoint, "").status().code(), absl::StatusCode::kDataLoss);
  FlipBit(path, 100);
  const absl::Status changed = CheckpointReader::Open(files_, checkpoint, digest).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(changed.message()), HasSubstr(path));
  ASSERT_TRUE(files_.RemoveTree(path).ok());
  EXPECT_EQ(CheckpointReader::Open(files_, checkpoint, digest).status().code(), absl::StatusCode::kDataLoss);
  files_.Add({FileOperation::kOpen, kManifestFileName, 0, absl::PermissionDeniedError("Permission denied")});
  EXPECT_EQ(CheckpointReader::Open(files_, checkpoint, digest).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(CheckpointTest, ADamagedTensorIsFoundWhenItIsReadAndNoOther) {
  const std::string checkpoint = Write(20);
  const std::string digest = ManifestDigest(*ReadFile(files_, checkpoint + "/" + kManifestFileName, kMaxManifestBytes));
  FlipBit(checkpoint + "/stage-00001.safetensors", (*files_.Open(checkpoint + "/stage-00001.safetensors"))->size() - 1);
  const auto reader = CheckpointReader::Open(files_, checkpoint, digest);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto read = [&](const std::string& name) {
    return (*reader)->Read(*FindCheckpointTensor((*reader)->manifest(), name),
                           [](uint64_t, std::span<const std::byte>) { return absl::OkStatus(); });
  };
  const absl::Status status = read("b");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(checkpoint + "/stage-00001.safetensors: tensor \"b\""));
  EXPECT_TRUE(read("a").ok());
}

TEST_F(CheckpointTest, NamesSortByStep) {
  EXPECT_EQ(CheckpointDirectoryName(Step(20)), "step-0000000020");
  EXPECT_EQ(CheckpointDirectoryName(Step(123456789012)), "step-123456789012");
  EXPECT_EQ(ShardFileName(StageIndex(7)), "stage-00007.safetensors");
}

TEST_F(CheckpointTest, DigestsComeFromTheShards) {
  const std::string checkpoint = Write(20);
  const auto verified = VerifyCheckpoint(files_, checkpoint);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->digest, verified->manifest.digest());
  EXPECT_EQ(verified->state_digest, verified->manifest.state_digest());
  EXPECT_EQ(verified->digest.size(), 32u);
  EXPECT_NE(verified->digest, verified->state_digest);
}

TEST_F(CheckpointTest, WritesShardsThenManifestThenLatest) {
  const std::string checkpoint = Write(20);
  EXPECT_THAT(files_.changes(), ElementsAre("commit " + checkpoint + "/stage-00000.safetensors",
                                            "commit " + checkpoint + "/stage-00001.safetensors",
                                            "commit " + checkpoint + "/manifest.json", "commit " + root_ + "/latest"));
}

TEST_F(CheckpointTest, FindsTheNewestByLatestAndWithoutIt) {
  const std::string older = Write(20);
  const std::string newer = Write(100);
  EXPECT_EQ(*FindCheckpoint(files_, root_), newer);
  EXPECT_EQ(*FindCheckpoint(files_, older), older);
  for (const char* latest : {"", "nonsense", "../step-0000000020", "step-0000000999", "step-20\n"}) {
    ASSERT_TRUE(WriteFileAtomically(files_, root_ + "/latest", latest).ok());
    EXPECT_EQ(*FindCheckpoint(files_, root_), newer) << latest;
  }
  ASSERT_TRUE(files_.RemoveTree(root_ + "/latest").ok());
  EXPECT_EQ(*FindCheckpoint(files_, root_), newer);
}

TEST_F(CheckpointTest, ALaterRunIntoTheSameDirectoryIsTheNewestAndHarmsNothing) {
  const std::string first = Write(20);
  Write(100);
  const std::string second = Write(20);
  EXPECT_EQ(second, root_ + "/step-0000000020.2");
  EXPECT_EQ(*FindCheckpoint(files_, root_), second);
  EXPECT_TRUE(VerifyCheckpoint(files_, first).ok());
  EXPECT_TRUE(VerifyCheckpoint(files_, second).ok());
}

TEST_F(CheckpointTest, ADirectoryWithoutManifestIsNotACheckpoint) {
  const std::string complete = Write(20);
  const auto unfinished = MakeCheckpointDirectory(files_, root_, Step(40));
  ASSERT_TRUE(unfinished.ok());
  WriteShards(*unfinished, 40);
  ASSERT_TRUE(files_.RemoveTree(root_ + "/latest").ok());
  EXPECT_EQ(*FindCheckpoint(files_, root_), complete);
  EXPECT_EQ(FindCheckpoint(files_, *unfinished).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindCheckpoint(files_, directory_.Path("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, AFlippedBitAnywhereInAShardIsDataLossThatNamesTheFile) {
  moment_bytes_ = 30;
  const std::string checkpoint = Write(20);
  const std::string shard = checkpoint + "/stage-00001.safetensors";
  const uint64_t size = (*files_.Open(shard))->size();
  for (uint64_t at = 0; at < size; ++at) {
    for (const int bit : {0, 7}) {
      FlipBit(shard, at, bit);
      ExpectDataLoss(checkpoint, "stage-00001.safetensors: ");
      FlipBit(shard, at, bit);
    }
  }
  EXPECT_TRUE(VerifyCheckpoint(files_, checkpoint).ok());
}

TEST_F(CheckpointTest, AFlippedBitInATensorNamesIt) {
  const std::string checkpoint = Write(20);
  const std::string shard = checkpoint + "/stage-00000.safetensors";
  const auto reader = SafetensorsReader::Open(files_, shard);
  for (const SafetensorsTensor& tensor : reader->tensors()) {
    for (const uint64_t at : {tensor.begin, tensor.begin + tensor.bytes() / 2, tensor.end - 1}) {
      FlipBit(shard, at);
      ExpectDataLoss(checkpoint, "stage-00000.safetensors: ", absl::StrCat("tensor \"", tensor.name, "\": its bytes"));
      FlipBit(shard, at);
    }
  }
}

TEST_F(CheckpointTest, TruncatedAndMissingShardsAreDataLoss) {
  const std::string checkpoint = Write(20);
  const std::string shard = checkpoint + "/stage-00001.safetensors";
  ASSERT_EQ(truncate(shard.c_str(), 10), 0);
  ExpectDataLoss(checkpoint, "stage-00001.safetensors: it has 10 bytes");
  ASSERT_TRUE(files_.RemoveTree(shard).ok());
  ExpectDataLoss(checkpoint, "stage-00001.safetensors", "No such file");
}

TEST_F(CheckpointTest, AShardOfAnotherAttemptIsDataLoss) {
  const std::string checkpoint = Write(20);
  v1::CheckpointManifest manifest = *ReadManifest(files_, checkpoint);
  const std::function<void()> changes[] = {[&] { manifest.set_job("other"); }, [&] { manifest.set_epoch(4); },
                                           [&] { manifest.set_step(21); },
                                           [&] { manifest.mutable_shards(0)->set_writer_incarnation(5); }};
  for (const auto& change : changes) {
    const v1::CheckpointManifest good = manifest;
    change();
    ASSERT_TRUE(WriteFileAtomically(files_, checkpoint + "/manifest.json", PrintManifest(manifest)).ok());
    ExpectDataLoss(checkpoint, "stage-00000.safetensors: its metadata has");
    manifest = good;
  }
}

TEST_F(CheckpointTest, AManifestThatDisagreesWithAShardIsDataLoss) {
  const std::string checkpoint = Write(20);
  const v1::CheckpointManifest good = *ReadManifest(files_, checkpoint);
  const std::vector<ShardReceipt> other = {
      WriteShard(directory_.path(), 0, 20, {{"a", "0123456"}, {"c", std::string(moment_bytes_, 'm'), true}}),
      WriteShard(directory_.path(), 1, 20, {{"b", "step20"}})};
  v1::CheckpointManifest manifest = good;
  ASSERT_TRUE(AddShards(other, manifest).ok());
  for (int i = 0; i < 2; ++i) *manifest.mutable_shards(i) = good.shards(i);
  ASSERT_TRUE(WriteFileAtomically(files_, checkpoint + "/manifest.json", PrintManifest(manifest)).ok());
  ExpectDataLoss(checkpoint, "tensor \"a.exp_avg\": the manifest has no such tensor");
  manifest = good;
  manifest.mutable_tensors(3)->set_name("e");
  const std::vector<ShardReceipt> missing = {
      WriteShard(directory_.path(), 0, 20, {{"a", "0123456"}, {"a.exp_avg", std::string(moment_bytes_, 'm'), true}}),
      WriteShard(directory_.path(), 1, 20, {{"b", "step20"}, {"empty", ""}, {"x", ""}})};
  ASSERT_TRUE(AddShards(missing, manifest).ok());
  for (int i = 0; i < 2; ++i) *manifest.mutable_shards(i) = good.shards(i);
  ASSERT_TRUE(WriteFileAtomically(files_, checkpoint + "/manifest.json", PrintManifest(manifest)).ok());
  ExpectDataLoss(checkpoint, "tensor \"x\": the manifest has it, the shard does not");
}

TEST_F(CheckpointTest, ADamagedManifestIsDataLossThatNamesIt) {
  const std::string checkpoint = Write(20);
  ASSERT_TRUE(WriteFileAtomically(files_, checkpoint + "/manifest.json", "{\"version\": 1").ok());
  ExpectDataLoss(checkpoint, "manifest.json: not JSON");
}

TEST_F(CheckpointTest, WithoutAShardNothingIsPublished) {
  const auto checkpoint = MakeCheckpointDirectory(files_, root_, Step(20));
  const v1::CheckpointManifest manifest = WriteShards(*checkpoint, 20);
  ASSERT_EQ(truncate((*checkpoint + "/stage-00001.safetensors").c_str(), 10), 0);
  EXPECT_EQ(PublishCheckpoint(files_, *checkpoint, manifest).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(files_.RemoveTree(*checkpoint + "/stage-00001.safetensors").ok());
  EXPECT_EQ(PublishCheckpoint(files_, *checkpoint, manifest).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PublishCheckpoint(files_, root_ + "/step-0000000021", manifest).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FindCheckpoint(files_, root_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, AFullDiskKeepsThePreviousCheckpoint) {
  const std::string previous = Write(20);
  const auto checkpoint = MakeCheckpointDirectory(files_, root_, Step(40));
  const v1::CheckpointManifest manifest = WriteShards(*checkpoint, 40);
  // First no room for the manifest, then none for `latest`.
  for (const uint64_t free_bytes : {uint64_t{100}, uint64_t{PrintManifest(manifest).size()}}) {
    files_.LimitFreeBytes(free_bytes);
    EXPECT_EQ(PublishCheckpoint(files_, *checkpoint, manifest).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(*FindCheckpoint(files_, root_), previous);
    EXPECT_TRUE(VerifyCheckpoint(files_, root_).ok());
  }
}

TEST_F(CheckpointTest, AWriterThatMayNotGoOnPublishesNothing) {
  const std::string previous = Write(20);
  for (const int allowed : {0, 1}) {
    const auto checkpoint = MakeCheckpointDirectory(files_, root_, Step(40));
    int asked = 0;
    const auto may_go_on = [&] { return asked++ < allowed ? absl::OkStatus() : absl::AbortedError("given up"); };
    const absl::Status status = PublishCheckpoint(files_, *checkpoint, WriteShards(*checkpoint, 40), may_go_on);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(*FindCheckpoint(files_, root_), previous);
  }
  // Between the two files it was a checkpoint already, and a right one.
  EXPECT_TRUE(VerifyCheckpoint(files_, root_ + "/step-0000000040.2").ok());
}

TEST_F(CheckpointTest, InputOutputErrorsAreNotTakenForDamage) {
  const std::string checkpoint = Write(20);
  files_.Add({FileOperation::kRead, "stage-00000", 3, absl::UnknownError("Input/output error")});
  EXPECT_EQ(VerifyCheckpoint(files_, checkpoint).status().code(), absl::StatusCode::kUnknown);
  files_.Add({FileOperation::kOpen, "manifest", 0, absl::PermissionDeniedError("Permission denied")});
  EXPECT_EQ(FindCheckpoint(files_, root_).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace stagecoach
