#include "formats/checkpoint.h"

#include <algorithm>
#include <compare>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/file_digest.h"
#include "formats/safetensors.h"
#include "formats/shard_reader.h"
#include "formats/tensor_digest.h"

namespace stagecoach {
namespace {

constexpr char kLatestFileName[] = "latest";
constexpr uint64_t kReadBytes = uint64_t{1} << 20;  // a multiple of the digest's words

std::string Join(const std::string& directory, absl::string_view name) { return absl::StrCat(directory, "/", name); }

// step-0000000020 is {20, 1}, step-0000000020.2 is {20, 2}.
struct DirectoryNumber {
  uint64_t step = 0;
  uint64_t number = 1;
  auto operator<=>(const DirectoryNumber&) const = default;
};

std::string NameOf(const DirectoryNumber& directory) {
  const std::string name = absl::StrFormat("step-%010d", directory.step);
  return directory.number == 1 ? name : absl::StrCat(name, ".", directory.number);
}

std::optional<DirectoryNumber> ParseCheckpointDirectoryName(absl::string_view name) {
  DirectoryNumber directory;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  absl::string_view digits = parts.first;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &directory.step)) return std::nullopt;
  if (!parts.second.empty() && !absl::SimpleAtoi(parts.second, &directory.number)) return std::nullopt;
  if (NameOf(directory) != name) return std::nullopt;
  return directory;
}

// Directory and last component.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

absl::StatusOr<bool> IsComplete(FileSystem& files, const std::string& checkpoint) {
  const absl::Status status = files.Open(Join(checkpoint, kManifestFileName)).status();
  if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) return false;
  if (!status.ok()) return status;
  return true;
}

// ---- verifying

// Every byte of one shard against what the manifest says of it.
class ShardVerifier {
 public:
  ShardVerifier(const v1::CheckpointManifest& manifest, uint32_t index, const ShardReader& shard)
      : manifest_(manifest), index_(index), shard_(shard), buffer_(kReadBytes) {}

  // Adds the tensors' digests, taken from their bytes.
  absl::Status Run(ModelDigest& parameters, ModelDigest& state) {
    STAGECOACH_RETURN_IF_ERROR(CheckNumberOfTensors());
    STAGECOACH_RETURN_IF_ERROR(AddHeaderToDigest());
    const ShardReader::Sink add = [this](uint64_t, std::span<const std::byte> piece) {
      file_digest_.Add(piece.data(), piece.size());
      return absl::OkStatus();
    };
    for (const SafetensorsTensor& tensor : shard_.reader().tensors()) {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::CheckpointTensor* expected, shard_.Expected(tensor));
      STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, shard_.Read(tensor, *expected, buffer_, add));
      if (!expected->optimizer_state()) parameters.Add(tensor.name, expected->dtype(), tensor.shape, digest);
      state.Add(tensor.name, expected->dtype(), tensor.shape, digest);
    }
    if (const std::string hex = file_digest_.Hex(); hex != shard_.entry().digest()) {
      return shard_.Error(absl::StrCat("its header differs from what was written: the file has digest ", hex,
                                       ", the manifest says ", shard_.entry().digest()));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckNumberOfTensors() const {
    const SafetensorsReader& reader = shard_.reader();
    const auto in_shard = [this](const v1::CheckpointTensor& tensor) { return tensor.shard() == index_; };
    const auto expected = std::count_if(manifest_.tensors().begin(), manifest_.tensors().end(), in_shard);
    if (static_cast<size_t>(expected) == reader.tensors().size()) return absl::OkStatus();
    for (const v1::CheckpointTensor& tensor : manifest_.tensors()) {
      if (in_shard(tensor) && reader.Find(tensor.name()) == nullptr) {
        return shard_.Error(
            absl::StrCat("tensor ", Quoted(tensor.name()), ": the manifest has it, the shard does not"));
      }
    }
    return shard_.Error(absl::StrCat("it has ", reader.tensors().size(), " tensors, the manifest ", expected));
  }

  absl::Status AddHeaderToDigest() {
    for (uint64_t at = 0; at < shard_.reader().data_begin();) {
      const auto piece = std::span(buffer_).first(std::min(kReadBytes, shard_.reader().data_begin() - at));
      STAGECOACH_RETURN_IF_ERROR(shard_.reader().ReadRaw(at, piece));
      file_digest_.Add(piece.data(), piece.size());
      at += piece.size();
    }
    return absl::OkStatus();
  }

  const v1::CheckpointManifest& manifest_;
  const uint32_t index_;
  const ShardReader& shard_;
  std::vector<std::byte> buffer_;
  FileDigest file_digest_;
};

absl::Status CheckShardSizes(FileSystem& files, const std::string& checkpoint, const v1::CheckpointManifest& manifest) {
  for (const v1::CheckpointShard& shard : manifest.shards()) {
    const absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = files.Open(Join(checkpoint, shard.file()));
    if (absl::IsNotFound(file.status())) return absl::FailedPreconditionError(file.status().message());
    if (!file.ok()) return file.status();
    if ((*file)->size() != shard.bytes()) {
      return absl::FailedPreconditionError(absl::StrCat(Join(checkpoint, shard.file()), " has ", (*file)->size(),
                                                        " bytes; its writer reported ", shard.bytes()));
    }
  }
  return absl::OkStatus();
}

// The complete checkpoint that `latest` names, or nothing.
absl::StatusOr<std::optional<std::string>> FollowLatest(FileSystem& files, const std::string& directory) {
  const absl::StatusOr<std::string> latest = ReadFile(files, Join(directory, kLatestFileName), 64);
  if (!latest.ok()) return std::optional<std::string>();
  const absl::string_view name = absl::StripSuffix(*latest, "\n");
  if (!ParseCheckpointDirectoryName(name)) return std::optional<std::string>();
  const std::string checkpoint = Join(directory, name);
  STAGECOACH_ASSIGN_OR_RETURN(const bool complete, IsComplete(files, checkpoint));
  return complete ? std::optional(checkpoint) : std::nullopt;
}

}  // namespace

std::string CheckpointDirectoryName(Step step) { return NameOf(DirectoryNumber{step.value()}); }

std::string ShardFileName(StageIndex stage) { return absl::StrFormat("stage-%05d.safetensors", stage.value()); }

absl::StatusOr<std::string> MakeCheckpointDirectory(FileSystem& files, const std::string& directory, Step step) {
  STAGECOACH_RETURN_IF_ERROR(files.CreateDirectories(directory));
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  DirectoryNumber candidate{step.value()};
  while (std::binary_search(names.begin(), names.end(), NameOf(candidate))) ++candidate.number;
  std::string checkpoint = Join(directory, NameOf(candidate));
  STAGECOACH_RETURN_IF_ERROR(files.CreateDirectories(checkpoint));
  return checkpoint;
}

absl::Status PublishCheckpoint(FileSystem& files, const std::string& checkpoint, const v1::CheckpointManifest& manifest,
                               const std::function<absl::Status()>& may_go_on) {
  const std::pair<std::string, std::string> parts = SplitPath(checkpoint);
  if (const auto number = ParseCheckpointDirectoryName(parts.second); !number || number->step != manifest.step()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint, " is not a directory for a checkpoint of step ", manifest.step()));
  }
  STAGECOACH_RETURN_IF_ERROR(WithContext(CheckManifest(manifest), checkpoint));
  STAGECOACH_RETURN_IF_ERROR(CheckShardSizes(files, checkpoint, manifest));
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  STAGECOACH_RETURN_IF_ERROR(WriteFileAtomically(files, Join(checkpoint, kManifestFileName), PrintManifest(manifest)));
  STAGECOACH_RETURN_IF_ERROR(may_go_on());
  return WriteFileAtomically(files, Join(parts.first, kLatestFileName), parts.second + "\n");
}

absl::StatusOr<std::vector<CheckpointDirectory>> ListCheckpoints(FileSystem& files, const std::string& directory) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<DirectoryNumber> numbers;
  for (const std::string& name : names) {
    if (const auto number = ParseCheckpointDirectoryName(name)) numbers.push_back(*number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  std::vector<CheckpointDirectory> checkpoints;
  for (const DirectoryNumber& number : numbers) {
    CheckpointDirectory& checkpoint = checkpoints.emplace_back();
    checkpoint.path = Join(directory, NameOf(number));
    checkpoint.step = Step(number.step);
    checkpoint.number = number.number;
    STAGECOACH_ASSIGN_OR_RETURN(checkpoint.is_complete, IsComplete(files, checkpoint.path));
  }
  return checkpoints;
}

absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& path) {
  STAGECOACH_ASSIGN_OR_RETURN(const bool complete, IsComplete(files, path));
  if (complete) return path;
  STAGECOACH_ASSIGN_OR_RETURN(const std::optional<std::string> latest, FollowLatest(files, path));
  if (latest) return *latest;
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<CheckpointDirectory> found, ListCheckpoints(files, path));
  for (const CheckpointDirectory& checkpoint : found) {
    if (checkpoint.is_complete) return checkpoint.path;
  }
  return absl::NotFoundError(absl::StrCat("no checkpoint in ", path, ": it has neither ", kManifestFileName,
                                          " nor step-*/", kManifestFileName));
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& files, const std::string& checkpoint) {
  const std::string path = Join(checkpoint, kManifestFileName);
  absl::StatusOr<std::string> text = ReadFile(files, path, kMaxManifestBytes);
  if (absl::IsResourceExhausted(text.status())) return absl::DataLossError(text.status().message());
  if (!text.ok()) return text.status();
  absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) return WithContext(manifest.status(), path);
  return manifest;
}

absl::StatusOr<VerifiedCheckpoint> VerifyCheckpoint(FileSystem& files, const std::string& path) {
  VerifiedCheckpoint verified;
  STAGECOACH_ASSIGN_OR_RETURN(verified.path, FindCheckpoint(files, path));
  STAGECOACH_ASSIGN_OR_RETURN(verified.manifest, ReadManifest(files, verified.path));
  ModelDigest parameters, state;
  for (uint32_t i = 0; i < static_cast<uint32_t>(verified.manifest.shards_size()); ++i) {
    STAGECOACH_ASSIGN_OR_RETURN(const ShardReader shard, ShardReader::Open(files, verified.path, verified.manifest, i));
    STAGECOACH_RETURN_IF_ERROR(ShardVerifier(verified.manifest, i, shard).Run(parameters, state));
  }
  state.AddUpdateCount(verified.manifest.num_updates());
  verified.digest = parameters.Hex();
  verified.state_digest = state.Hex();
  return verified;
}

}  // namespace stagecoach
