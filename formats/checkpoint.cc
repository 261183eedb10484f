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

// One shard against what the manifest says of it.
class ShardVerifier {
 public:
  ShardVerifier(const v1::CheckpointManifest& manifest, uint32_t shard, const SafetensorsReader& reader)
      : manifest_(manifest), shard_(shard), reader_(reader), buffer_(kReadBytes) {}

  // Adds the tensors' digests, taken from their bytes.
  absl::Status Run(ModelDigest& parameters, ModelDigest& state) {
    STAGECOACH_RETURN_IF_ERROR(CheckMetadata());
    STAGECOACH_RETURN_IF_ERROR(CheckNumberOfTensors());
    STAGECOACH_RETURN_IF_ERROR(AddHeaderToDigest());
    for (const SafetensorsTensor& tensor : reader_.tensors()) {
      STAGECOACH_ASSIGN_OR_RETURN(const v1::CheckpointTensor* expected, FindExpected(tensor));
      STAGECOACH_ASSIGN_OR_RETURN(const TensorDigest digest, ReadAndDigest(tensor));
      if (digest.Hex() != expected->digest()) {
        return Differs(
            tensor, absl::StrCat("its bytes have digest ", digest.Hex(), ", the manifest says ", expected->digest()));
      }
      if (!expected->optimizer_state()) parameters.Add(tensor.name, expected->dtype(), tensor.shape, digest);
      state.Add(tensor.name, expected->dtype(), tensor.shape, digest);
    }
    if (const std::string hex = file_digest_.Hex(); hex != shard().digest()) {
      return Error(absl::StrCat("its header differs from what was written: the file has digest ", hex,
                                ", the manifest says ", shard().digest()));
    }
    return absl::OkStatus();
  }

 private:
  const v1::CheckpointShard& shard() const { return manifest_.shards(static_cast<int>(shard_)); }
  absl::Status Error(absl::string_view message) const {
    return absl::DataLossError(absl::StrCat(reader_.path(), ": ", message));
  }
  absl::Status Differs(const SafetensorsTensor& tensor, absl::string_view message) const {
    return Error(absl::StrCat("tensor ", Quoted(tensor.name), ": ", message));
  }

  // A shard of another attempt may be whole in itself.
  absl::Status CheckMetadata() const {
    const std::pair<const char*, std::string> expected[] = {
        {"job", manifest_.job()},
        {"epoch", absl::StrCat(manifest_.epoch())},
        {"step", absl::StrCat(manifest_.step())},
        {"incarnation", absl::StrCat(shard().writer_incarnation())}};
    for (const auto& [key, value] : expected) {
      const auto found = reader_.metadata().find(key);
      const std::string got = found == reader_.metadata().end() ? "nothing" : Quoted(found->second);
      if (got != Quoted(value)) {
        return Error(absl::StrCat("its metadata has ", got, " as ", key, ", the manifest ", Quoted(value)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumberOfTensors() const {
    const auto in_shard = [this](const v1::CheckpointTensor& tensor) { return tensor.shard() == shard_; };
    const auto expected = std::count_if(manifest_.tensors().begin(), manifest_.tensors().end(), in_shard);
    if (static_cast<size_t>(expected) == reader_.tensors().size()) return absl::OkStatus();
    for (const v1::CheckpointTensor& tensor : manifest_.tensors()) {
      if (in_shard(tensor) && reader_.Find(tensor.name()) == nullptr) {
        return Error(absl::StrCat("tensor ", Quoted(tensor.name()), ": the manifest has it, the shard does not"));
      }
    }
    return Error(absl::StrCat("it has ", reader_.tensors().size(), " tensors, the manifest ", expected));
  }

  absl::StatusOr<const v1::CheckpointTensor*> FindExpected(const SafetensorsTensor& tensor) const {
    const auto& tensors = manifest_.tensors();
    const auto found =
        std::lower_bound(tensors.begin(), tensors.end(), tensor.name,
                         [](const v1::CheckpointTensor& a, const std::string& name) { return a.name() < name; });
    if (found == tensors.end() || found->name() != tensor.name || found->shard() != shard_) {
      return Differs(tensor, "the manifest has no such tensor in this shard");
    }
    if (found->dtype() != DTypeOf(tensor.type) ||
        !std::equal(tensor.shape.begin(), tensor.shape.end(), found->shape().begin(), found->shape().end())) {
      return Differs(tensor, "its dtype or shape is not the manifest's");
    }
    return &*found;
  }

  absl::Status AddHeaderToDigest() {
    for (uint64_t at = 0; at < reader_.data_begin();) {
      const auto piece = std::span(buffer_).first(std::min(kReadBytes, reader_.data_begin() - at));
      STAGECOACH_RETURN_IF_ERROR(reader_.ReadRaw(at, piece));
      file_digest_.Add(piece.data(), piece.size());
      at += piece.size();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorDigest> ReadAndDigest(const SafetensorsTensor& tensor) {
    TensorDigest digest;
    for (uint64_t at = 0; at < tensor.bytes();) {
      const auto piece = std::span(buffer_).first(std::min(kReadBytes, tensor.bytes() - at));
      STAGECOACH_RETURN_IF_ERROR(reader_.Read(tensor, at, piece));
      file_digest_.Add(piece.data(), piece.size());
      digest = digest + DigestBytes(piece, at / 4);
      at += piece.size();
    }
    return digest;
  }

  const v1::CheckpointManifest& manifest_;
  const uint32_t shard_;
  const SafetensorsReader& reader_;
  std::vector<std::byte> buffer_;
  FileDigest file_digest_;
};

absl::StatusOr<SafetensorsReader> OpenShard(FileSystem& files, const std::string& path, uint64_t bytes) {
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = files.Open(path);
  if (absl::IsNotFound(file.status()) || absl::IsFailedPrecondition(file.status())) {
    return absl::DataLossError(absl::StrCat("shard of the checkpoint: ", file.status().message()));
  }
  if (!file.ok()) return file.status();
  if ((*file)->size() != bytes) {
    return absl::DataLossError(absl::StrCat(path, ": it has ", (*file)->size(), " bytes, the manifest says ", bytes));
  }
  return SafetensorsReader::Create(*std::move(file), path);
}

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

absl::Status PublishCheckpoint(FileSystem& files, const std::string& checkpoint,
                               const v1::CheckpointManifest& manifest) {
  const std::pair<std::string, std::string> parts = SplitPath(checkpoint);
  if (const auto number = ParseCheckpointDirectoryName(parts.second); !number || number->step != manifest.step()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint, " is not a directory for a checkpoint of step ", manifest.step()));
  }
  STAGECOACH_RETURN_IF_ERROR(WithContext(CheckManifest(manifest), checkpoint));
  STAGECOACH_RETURN_IF_ERROR(CheckShardSizes(files, checkpoint, manifest));
  STAGECOACH_RETURN_IF_ERROR(WriteFileAtomically(files, Join(checkpoint, kManifestFileName), PrintManifest(manifest)));
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
    const v1::CheckpointShard& shard = verified.manifest.shards(static_cast<int>(i));
    STAGECOACH_ASSIGN_OR_RETURN(const SafetensorsReader reader,
                                OpenShard(files, Join(verified.path, shard.file()), shard.bytes()));
    STAGECOACH_RETURN_IF_ERROR(ShardVerifier(verified.manifest, i, reader).Run(parameters, state));
  }
  state.AddUpdateCount(verified.manifest.num_updates());
  verified.digest = parameters.Hex();
  verified.state_digest = state.Hex();
  return verified;
}

}  // namespace stagecoach
