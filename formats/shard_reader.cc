#include "formats/shard_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/quoted.h"
#include "common/status_macros.h"

namespace stagecoach {

const v1::CheckpointTensor* FindCheckpointTensor(const v1::CheckpointManifest& manifest, absl::string_view name) {
  const auto& tensors = manifest.tensors();
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const v1::CheckpointTensor& tensor, absl::string_view wanted) { return tensor.name() < wanted; });
  return found == tensors.end() || found->name() != name ? nullptr : &*found;
}

absl::StatusOr<ShardReader> ShardReader::Open(FileSystem& files, const std::string& checkpoint,
                                              const v1::CheckpointManifest& manifest, uint32_t index) {
  const v1::CheckpointShard& entry = manifest.shards(static_cast<int>(index));
  const std::string path = absl::StrCat(checkpoint, "/", entry.file());
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = files.Open(path);
  if (absl::IsNotFound(file.status()) || absl::IsFailedPrecondition(file.status())) {
    return absl::DataLossError(absl::StrCat("shard of the checkpoint: ", file.status().message()));
  }
  if (!file.ok()) return file.status();
  if ((*file)->size() != entry.bytes()) {
    return absl::DataLossError(
        absl::StrCat(path, ": it has ", (*file)->size(), " bytes, the manifest says ", entry.bytes()));
  }
  STAGECOACH_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Create(*std::move(file), path));
  ShardReader shard(manifest, index, std::move(reader));
  STAGECOACH_RETURN_IF_ERROR(shard.CheckMetadata());
  return shard;
}

absl::Status ShardReader::Error(absl::string_view message) const {
  return absl::DataLossError(absl::StrCat(reader_.path(), ": ", message));
}

absl::Status ShardReader::Differs(absl::string_view tensor, absl::string_view message) const {
  return Error(absl::StrCat("tensor ", Quoted(tensor), ": ", message));
}

// A shard of another attempt may be whole in itself.
absl::Status ShardReader::CheckMetadata() const {
  const std::pair<const char*, std::string> expected[] = {{"job", manifest_->job()},
                                                          {"epoch", absl::StrCat(manifest_->epoch())},
                                                          {"step", absl::StrCat(manifest_->step())},
                                                          {"incarnation", absl::StrCat(entry().writer_incarnation())}};
  for (const auto& [key, value] : expected) {
    const auto found = reader_.metadata().find(key);
    const std::string got = found == reader_.metadata().end() ? "nothing" : Quoted(found->second);
    if (got != Quoted(value)) {
      return Error(absl::StrCat("its metadata has ", got, " as ", key, ", the manifest ", Quoted(value)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const v1::CheckpointTensor*> ShardReader::Expected(const SafetensorsTensor& tensor) const {
  const v1::CheckpointTensor* const expected = FindCheckpointTensor(*manifest_, tensor.name);
  if (expected == nullptr || expected->shard() != index_) {
    return Differs(tensor.name, "the manifest has no such tensor in this shard");
  }
  if (expected->dtype() != DTypeOf(tensor.type) ||
      !std::equal(tensor.shape.begin(), tensor.shape.end(), expected->shape().begin(), expected->shape().end())) {
    return Differs(tensor.name, "its dtype or shape is not the manifest's");
  }
  return expected;
}

absl::StatusOr<TensorDigest> ShardReader::Read(const SafetensorsTensor& tensor, const v1::CheckpointTensor& expected,
                                               std::span<std::byte> buffer, const Sink& sink) const {
  TensorDigest digest;
  for (uint64_t at = 0; at < tensor.bytes();) {
    const auto piece = buffer.first(std::min<uint64_t>(buffer.size(), tensor.bytes() - at));
    STAGECOACH_RETURN_IF_ERROR(reader_.Read(tensor, at, piece));
    digest = digest + DigestBytes(piece, at / 4);
    STAGECOACH_RETURN_IF_ERROR(sink(at, piece));
    at += piece.size();
  }
  if (digest.Hex() == expected.digest()) return digest;
  return Differs(tensor.name,
                 absl::StrCat("its bytes have digest ", digest.Hex(), ", the manifest says ", expected.digest()));
}

absl::Status ShardReader::Read(const v1::CheckpointTensor& expected, std::span<std::byte> buffer,
                               const Sink& sink) const {
  const SafetensorsTensor* const tensor = reader_.Find(expected.name());
  if (tensor == nullptr) return Differs(expected.name(), "the manifest has it, the shard does not");
  STAGECOACH_RETURN_IF_ERROR(Expected(*tensor).status());
  return Read(*tensor, expected, buffer, sink).status();
}

}  // namespace stagecoach
