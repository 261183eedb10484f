#include "formats/checkpoint_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "formats/tensor_digest.h"
#include "google/protobuf/util/message_differencer.h"

namespace stagecoach {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;

constexpr char kFileDigest[] = "0123456789abcdef0123456789abcdef";

void AddTensor(ShardReceipt& receipt, const std::string& name, uint64_t rows, bool optimizer_state) {
  v1::TensorDigestReport& tensor = *receipt.written.add_tensors();
  tensor.set_name(name);
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.add_shape(rows);
  tensor.set_low(rows);
  tensor.set_high(~rows);
  tensor.set_optimizer_state(optimizer_state);
}

std::vector<ShardReceipt> Receipts() {
  std::vector<ShardReceipt> receipts(2);
  for (size_t i = 0; i < receipts.size(); ++i) {
    receipts[i].written.set_step(20);
    receipts[i].written.set_file(i == 0 ? "stage-00000.safetensors" : "stage-00001.safetensors");
    receipts[i].written.set_bytes(1000);
    receipts[i].written.set_digest(kFileDigest);
    receipts[i].writer = Incarnation(7 + i);
  }
  AddTensor(receipts[0], "wte", 3, false);
  AddTensor(receipts[0], "wte.exp_avg", 4, true);
  AddTensor(receipts[1], "ln_f", 5, false);
  return receipts;
}

v1::CheckpointManifest Header() {
  v1::CheckpointManifest manifest;
  manifest.set_version(kManifestVersion);
  manifest.set_job("job");
  manifest.set_step(20);
  manifest.set_num_updates(19);
  return manifest;
}

v1::CheckpointManifest Manifest() {
  v1::CheckpointManifest manifest = Header();
  EXPECT_TRUE(AddShards(Receipts(), manifest).ok());
  return manifest;
}

TEST(CheckpointManifestTest, ListsTensorsInNameOrderWithTheirShards) {
  const v1::CheckpointManifest manifest = Manifest();
  ASSERT_EQ(manifest.tensors_size(), 3);
  EXPECT_EQ(manifest.tensors(0).name(), "ln_f");
  EXPECT_EQ(manifest.tensors(0).shard(), 1u);
  EXPECT_EQ(manifest.tensors(2).name(), "wte.exp_avg");
  EXPECT_EQ(manifest.tensors(2).shard(), 0u);
  EXPECT_EQ(manifest.shards(1).writer_incarnation(), 8u);
}

TEST(CheckpointManifestTest, ParameterDigestLeavesOutOptimizerStateAndUpdateCount) {
  const v1::CheckpointManifest manifest = Manifest();
  std::vector<ShardReceipt> receipts = Receipts();
  receipts[0].written.mutable_tensors(1)->set_low(99);
  v1::CheckpointManifest other = Header();
  ASSERT_TRUE(AddShards(receipts, other).ok());
  EXPECT_EQ(other.digest(), manifest.digest());
  EXPECT_NE(other.state_digest(), manifest.state_digest());
  other = Header();
  other.set_num_updates(20);
  ASSERT_TRUE(AddShards(Receipts(), other).ok());
  EXPECT_EQ(other.digest(), manifest.digest());
  EXPECT_NE(other.state_digest(), manifest.state_digest());
}

TEST(CheckpointManifestTest, DigestsDoNotDependOnTheCut) {
  std::vector<ShardReceipt> receipts = Receipts();
  *receipts[0].written.add_tensors() = receipts[1].written.tensors(0);
  receipts.pop_back();
  v1::CheckpointManifest one_stage = Header();
  ASSERT_TRUE(AddShards(receipts, one_stage).ok());
  EXPECT_EQ(one_stage.digest(), Manifest().digest());
  EXPECT_EQ(one_stage.state_digest(), Manifest().state_digest());
}

TEST(CheckpointManifestTest, RefusesReceiptsThatDoNotMakeACheckpoint) {
  const auto refuses = [](const std::function<void(std::vector<ShardReceipt>&)>& change) {
    std::vector<ShardReceipt> receipts = Receipts();
    change(receipts);
    v1::CheckpointManifest manifest = Header();
    return AddShards(receipts, manifest).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](auto& r) { r.clear(); }));
  EXPECT_TRUE(refuses([](auto& r) { r[1].written.set_step(19); }));
  EXPECT_TRUE(refuses([](auto& r) { r[1].written.mutable_tensors(0)->set_name("wte"); }));
  EXPECT_TRUE(refuses([](auto& r) { r[1].written.set_file("../x"); }));
  EXPECT_TRUE(refuses([](auto& r) { r[1].written.set_digest("abc"); }));
}

TEST(CheckpointManifestTest, ReadsBackWhatItPrints) {
  const v1::CheckpointManifest manifest = Manifest();
  const auto parsed = ParseManifest(PrintManifest(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(MessageDifferencer::Equals(*parsed, manifest));
}

struct BadManifest {
  const char* name;
  std::function<void(v1::CheckpointManifest&)> change;
  const char* message;
};
class CheckpointManifestRejects : public testing::TestWithParam<BadManifest> {};

TEST_P(CheckpointManifestRejects, WithAMessageThatSaysWhat) {
  v1::CheckpointManifest manifest = Manifest();
  GetParam().change(manifest);
  const auto parsed = ParseManifest(PrintManifest(manifest));
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    CheckpointManifestTest, CheckpointManifestRejects,
    testing::Values(
        BadManifest{"OtherVersion", [](auto& m) { m.set_version(2); }, "its version is 2"},
        BadManifest{"NoShards", [](auto& m) { m.clear_shards(); }, "no shards"},
        BadManifest{"ParentDirectory", [](auto& m) { m.mutable_shards(0)->set_file(".."); }, "not a plain file name"},
        BadManifest{"AbsolutePath", [](auto& m) { m.mutable_shards(0)->set_file("/etc/passwd"); }, "not a plain"},
        BadManifest{"PathBelow", [](auto& m) { m.mutable_shards(0)->set_file("a/b"); }, "not a plain"},
        BadManifest{"EmptyFileName", [](auto& m) { m.mutable_shards(0)->set_file(""); }, "not a plain"},
        BadManifest{"ControlCharacter", [](auto& m) { m.mutable_shards(0)->set_file("a\x1b[2J"); }, R"("a\033[2J")"},
        BadManifest{"TheManifestAsShard", [](auto& m) { m.mutable_shards(0)->set_file("manifest.json"); }, "is taken"},
        BadManifest{"AShardTwice", [](auto& m) { *m.mutable_shards(1) = m.shards(0); }, "is taken"},
        BadManifest{"ShortShardDigest", [](auto& m) { m.mutable_shards(0)->set_digest("12"); }, "32 hexadecimal"},
        BadManifest{"ATensorTwice", [](auto& m) { *m.mutable_tensors(1) = m.tensors(0); }, "there twice"},
        BadManifest{"OutOfOrder", [](auto& m) { m.mutable_tensors()->SwapElements(0, 1); }, "out of order"},
        BadManifest{"NoSuchShard", [](auto& m) { m.mutable_tensors(0)->set_shard(2); }, "no shard 2"},
        BadManifest{"NoDtype", [](auto& m) { m.mutable_tensors(0)->clear_dtype(); }, "no dtype"},
        BadManifest{"TensorDigestWithSign",
                    [](auto& m) { m.mutable_tensors(0)->set_digest("-123456789abcdef0123456789abcdef"); },
                    "its digest is not"},
        BadManifest{"ShapeOverflow", [](auto& m) { m.mutable_tensors(0)->add_shape(uint64_t{1} << 63); },
                    "more than 2^64 bytes"},
        BadManifest{"LargerThanItsShard", [](auto& m) { m.mutable_tensors(0)->add_shape(51); }, "do not fit"},
        BadManifest{"OtherShape", [](auto& m) { m.mutable_tensors(0)->add_shape(1); }, "its digest is \""},
        BadManifest{"OtherTensorDigest", [](auto& m) { m.mutable_tensors(0)->set_digest(kFileDigest); },
                    "its digest is \""},
        BadManifest{"OtherUpdateCount", [](auto& m) { m.set_num_updates(18); }, "its state_digest is \""}),
    [](const testing::TestParamInfo<BadManifest>& bad) { return std::string(bad.param.name); });

TEST(CheckpointManifestTest, TextThatIsNotAManifestIsDataLoss) {
  for (const char* text : {"", "{}", "[]", "{\"version\": 1, \"extra\": 2}",
                           "\x7f"
                           "ELF"}) {
    EXPECT_EQ(ParseManifest(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace stagecoach
