#include "formats/checkpoint_manifest.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/proto_json.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "formats/safetensors_header.h"
#include "formats/tensor_digest.h"

namespace stagecoach {
namespace {

bool IsHexDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f'); }

std::optional<TensorDigest> ParseDigest(absl::string_view hex) {
  TensorDigest digest;
  if (hex.size() != 32 || !std::all_of(hex.begin(), hex.end(), IsHexDigit) ||
      !absl::SimpleHexAtoi(hex.substr(0, 16), &digest.words[1]) ||
      !absl::SimpleHexAtoi(hex.substr(16), &digest.words[0])) {
    return std::nullopt;
  }
  return digest;
}

absl::Status CheckShards(const v1::CheckpointManifest& manifest) {
  if (manifest.shards().empty()) return absl::DataLossError("there are no shards");
  std::set<std::string> names = {kManifestFileName};
  for (const v1::CheckpointShard& shard : manifest.shards()) {
    if (!IsPlainFileName(shard.file())) {
      return absl::DataLossError(absl::StrCat("shard ", Quoted(shard.file()), ": not a plain file name"));
    }
    if (!names.insert(shard.file()).second) {
      return absl::DataLossError(absl::StrCat("shard ", shard.file(), ": this name is taken"));
    }
    if (!ParseDigest(shard.digest())) {
      return absl::DataLossError(absl::StrCat("shard ", shard.file(), ": its digest is not 32 hexadecimal digits"));
    }
  }
  return absl::OkStatus();
}

// Takes the tensor's bytes from what its shard has left in `left`.
std::string CheckTensor(const v1::CheckpointTensor& tensor, std::vector<uint64_t>& left) {
  if (tensor.shard() >= left.size()) return absl::StrCat("there is no shard ", tensor.shard());
  if (!ParseDigest(tensor.digest())) return "its digest is not 32 hexadecimal digits";
  const std::optional<SafetensorsType> type = SafetensorsTypeOf(tensor.dtype());
  if (!type) return "it has no dtype";
  uint64_t bytes = BitsOf(*type) / 8;
  for (const uint64_t dim : tensor.shape()) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return "its shape has more than 2^64 bytes";
  }
  if (bytes > left[tensor.shard()]) return "its bytes do not fit into its shard";
  left[tensor.shard()] -= bytes;
  return "";
}

absl::Status CheckTensors(const v1::CheckpointManifest& manifest) {
  std::vector<uint64_t> left;
  for (const v1::CheckpointShard& shard : manifest.shards()) left.push_back(shard.bytes());
  const std::string* previous = nullptr;
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) {
    std::string error = CheckTensor(tensor, left);
    if (error.empty() && previous != nullptr && *previous == tensor.name()) error = "it is there twice";
    if (error.empty() && previous != nullptr && *previous > tensor.name()) error = "it is out of order";
    if (!error.empty()) return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name()), ": ", error));
    previous = &tensor.name();
  }
  return absl::OkStatus();
}

struct Digests {
  std::string parameters;
  std::string state;
};

// Of tensors that CheckTensors has passed.
Digests DigestsOf(const v1::CheckpointManifest& manifest) {
  ModelDigest parameters, state;
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) {
    const std::vector<uint64_t> shape(tensor.shape().begin(), tensor.shape().end());
    const TensorDigest digest = *ParseDigest(tensor.digest());
    if (!tensor.optimizer_state()) parameters.Add(tensor.name(), tensor.dtype(), shape, digest);
    state.Add(tensor.name(), tensor.dtype(), shape, digest);
  }
  state.AddUpdateCount(manifest.num_updates());
  return {parameters.Hex(), state.Hex()};
}

absl::Status CheckForm(const v1::CheckpointManifest& manifest) {
  if (manifest.version() != kManifestVersion) {
    return absl::DataLossError(
        absl::StrCat("its version is ", manifest.version(), "; this build reads ", kManifestVersion));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckShards(manifest));
  return CheckTensors(manifest);
}

}  // namespace

bool IsPlainFileName(absl::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c != '/' && c != '\\' && absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

absl::Status AddShards(std::span<const ShardReceipt> receipts, v1::CheckpointManifest& manifest) {
  manifest.clear_shards();
  manifest.clear_tensors();
  std::vector<v1::CheckpointTensor> tensors;
  for (const ShardReceipt& receipt : receipts) {
    const v1::ShardWritten& written = receipt.written;
    if (written.step() != manifest.step()) {
      return absl::InvalidArgumentError(absl::StrCat("shard ", Quoted(written.file()), " is of step ", written.step(),
                                                     ", the checkpoint of step ", manifest.step()));
    }
    v1::CheckpointShard& shard = *manifest.add_shards();
    shard.set_file(written.file());
    shard.set_bytes(written.bytes());
    shard.set_digest(written.digest());
    shard.set_writer_incarnation(receipt.writer.value());
    for (const v1::TensorDigestReport& report : written.tensors()) {
      v1::CheckpointTensor& tensor = tensors.emplace_back();
      tensor.set_name(report.name());
      tensor.set_dtype(report.dtype());
      *tensor.mutable_shape() = report.shape();
      tensor.set_shard(static_cast<uint32_t>(manifest.shards_size() - 1));
      tensor.set_digest(TensorDigest{{report.low(), report.high()}}.Hex());
      tensor.set_optimizer_state(report.optimizer_state());
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const v1::CheckpointTensor& a, const v1::CheckpointTensor& b) { return a.name() < b.name(); });
  for (v1::CheckpointTensor& tensor : tensors) *manifest.add_tensors() = std::move(tensor);
  if (const absl::Status status = CheckForm(manifest); !status.ok()) {
    return absl::InvalidArgumentError(status.message());
  }
  const Digests digests = DigestsOf(manifest);
  manifest.set_digest(digests.parameters);
  manifest.set_state_digest(digests.state);
  return absl::OkStatus();
}

absl::Status CheckManifest(const v1::CheckpointManifest& manifest) {
  STAGECOACH_RETURN_IF_ERROR(CheckForm(manifest));
  const Digests digests = DigestsOf(manifest);
  if (digests.parameters != manifest.digest()) {
    return absl::DataLossError(
        absl::StrCat("its digest is ", Quoted(manifest.digest()), "; its tensors give ", digests.parameters));
  }
  if (digests.state != manifest.state_digest()) {
    return absl::DataLossError(absl::StrCat("its state_digest is ", Quoted(manifest.state_digest()),
                                            "; its tensors and update count give ", digests.state));
  }
  return absl::OkStatus();
}

std::string PrintManifest(const v1::CheckpointManifest& manifest) {
  return PrintJson(manifest, JsonLayout::kIndented) + "\n";
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view text) {
  v1::CheckpointManifest manifest;
  if (const absl::Status status = ParseJson(text, manifest, {.max_bytes = kMaxManifestBytes}); !status.ok()) {
    return absl::DataLossError(status.message());
  }
  STAGECOACH_RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

}  // namespace stagecoach
