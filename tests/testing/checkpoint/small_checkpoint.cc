#include "tests/testing/checkpoint/small_checkpoint.h"

#include <fstream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/safetensors.h"
#include "formats/tensor_digest.h"

namespace stagecoach {
namespace {

constexpr uint64_t kWriter = 7;

ShardReceipt WriteShard(FileSystem& files, const std::string& checkpoint, uint64_t step) {
  const std::pair<std::string, std::string> tensors[] = {{"w", absl::StrCat("weights of step ", step)},
                                                         {"w.exp_avg", "moments"}};
  ShardReceipt receipt{{}, Incarnation(kWriter)};
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const auto& [name, bytes] : tensors) {
    const TensorDigest digest = DigestBytes(std::as_bytes(std::span(bytes)));
    v1::TensorDigestReport& report = *receipt.written.add_tensors();
    report.set_name(name);
    report.set_dtype(v1::DTYPE_U8);
    report.add_shape(bytes.size());
    report.set_low(digest.words[0]);
    report.set_high(digest.words[1]);
    report.set_optimizer_state(name != "w");
    declarations.push_back({name, SafetensorsType::kU8, {bytes.size()}});
  }
  receipt.written.set_step(step);
  receipt.written.set_file(ShardFileName(StageIndex(0)));
  const SafetensorsMetadata metadata = {{"format", "stagecoach-shard-1"},
                                        {"job", "job"},
                                        {"epoch", "1"},
                                        {"step", absl::StrCat(step)},
                                        {"incarnation", absl::StrCat(kWriter)}};
  auto writer = SafetensorsWriter::Create(files, absl::StrCat(checkpoint, "/", receipt.written.file()), metadata,
                                          std::move(declarations));
  STAGECOACH_CHECK(writer.ok());
  for (const auto& [name, bytes] : tensors) {
    STAGECOACH_CHECK((*writer)->Append(std::as_bytes(std::span(bytes))).ok());
  }
  const auto written = (*writer)->Commit();
  STAGECOACH_CHECK(written.ok());
  receipt.written.set_bytes(written->bytes);
  receipt.written.set_digest(written->digest);
  return receipt;
}

}  // namespace

std::string WriteSmallCheckpoint(FileSystem& files, const std::string& directory, uint64_t step,
                                 const v1::JobSpec& spec, const CorpusIdentity& training_data) {
  const auto checkpoint = MakeCheckpointDirectory(files, directory, Step(step));
  STAGECOACH_CHECK(checkpoint.ok());
  const std::vector<ShardReceipt> receipts = {WriteShard(files, *checkpoint, step)};
  v1::CheckpointManifest manifest;
  manifest.set_version(kManifestVersion);
  manifest.set_job("job");
  manifest.set_epoch(1);
  manifest.set_step(step);
  manifest.set_num_updates(step);
  manifest.mutable_training_data()->set_bytes(training_data.bytes);
  manifest.mutable_training_data()->set_digest(training_data.digest);
  *manifest.mutable_spec() = spec;
  v1::CommitRecord& record = *manifest.mutable_last_commit();
  record.set_step(step);
  record.set_num_updates(step);
  record.set_verdict(v1::VERDICT_APPLY);
  record.set_next_loss_scale(1);
  STAGECOACH_CHECK(AddShards(receipts, manifest).ok());
  STAGECOACH_CHECK(PublishCheckpoint(files, *checkpoint, manifest).ok());
  return *checkpoint;
}

void FlipLastBit(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int byte = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
  STAGECOACH_CHECK(file.good());
}

}  // namespace stagecoach
