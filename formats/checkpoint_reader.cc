#include "formats/checkpoint_reader.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "formats/checkpoint_manifest.h"
#include "formats/file_digest.h"

namespace stagecoach {

std::string ManifestDigest(absl::string_view text) {
  FileDigest digest;
  digest.Add(text.data(), text.size());
  return digest.Hex();
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(FileSystem& files,
                                                                         const std::string& checkpoint,
                                                                         absl::string_view manifest_digest) {
  const std::string path = absl::StrCat(checkpoint, "/", kManifestFileName);
  const absl::StatusOr<std::string> text = ReadFile(files, path, kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::DataLossError(absl::StrCat("not a checkpoint: ", text.status().message()));
  }
  if (!text.ok()) return text.status();
  if (const std::string digest = ManifestDigest(*text); digest != manifest_digest) {
    return absl::DataLossError(absl::StrCat(path, ": it has digest ", digest, ", and not ", manifest_digest,
                                            ": it is not the manifest that was verified"));
  }
  absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) return WithContext(manifest.status(), path);
  return absl::WrapUnique(new CheckpointReader(files, checkpoint, *std::move(manifest)));
}

std::string CheckpointReader::PathOf(const v1::CheckpointTensor& tensor) const {
  return absl::StrCat(checkpoint_, "/", manifest_.shards(static_cast<int>(tensor.shard())).file());
}

absl::Status CheckpointReader::Read(const v1::CheckpointTensor& tensor, const ShardReader::Sink& sink) {
  auto shard = shards_.find(tensor.shard());
  if (shard == shards_.end()) {
    STAGECOACH_ASSIGN_OR_RETURN(ShardReader opened, ShardReader::Open(files_, checkpoint_, manifest_, tensor.shard()));
    shard = shards_.emplace(tensor.shard(), std::move(opened)).first;
  }
  return shard->second.Read(tensor, buffer_, sink);
}

}  // namespace stagecoach
