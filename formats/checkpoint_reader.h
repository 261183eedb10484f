#ifndef STAGECOACH_FORMATS_CHECKPOINT_READER_H_
#define STAGECOACH_FORMATS_CHECKPOINT_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_system.h"
#include "formats/shard_reader.h"
#include "stagecoach/v1/checkpoint.pb.h"

namespace stagecoach {

// Reads single tensors of a checkpoint, wherever they lie: who wrote it in how many shards does not matter. What is
// read is verified against the manifest, and nothing else is read. Memory: the manifest, the headers of the shards in
// use, one buffer of kPieceBytes. Used by one thread.
class CheckpointReader {
 public:
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;  // a multiple of the digest's words

  // `checkpoint` is the directory with manifest.json; `manifest_digest` that of the file, see ManifestDigest.
  // DATA_LOSS: there is no manifest, it is another one, or ParseManifest refuses it. Errors of the file system keep
  // their codes.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(FileSystem& files, const std::string& checkpoint,
                                                                absl::string_view manifest_digest);

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  std::string PathOf(const v1::CheckpointTensor& tensor) const;  // of its shard

  // The bytes of a tensor of manifest(), in pieces of at most kPieceBytes. DATA_LOSS: the shard is not whole, or the
  // bytes are not those of the manifest; they have gone to `sink` all the same. Errors of `sink` and of the file
  // system.
  absl::Status Read(const v1::CheckpointTensor& tensor, const ShardReader::Sink& sink);

 private:
  CheckpointReader(FileSystem& files, std::string checkpoint, v1::CheckpointManifest manifest)
      : files_(files), checkpoint_(std::move(checkpoint)), manifest_(std::move(manifest)), buffer_(kPieceBytes) {}

  FileSystem& files_;
  const std::string checkpoint_;
  const v1::CheckpointManifest manifest_;
  std::map<uint32_t, ShardReader> shards_;  // those opened so far
  std::vector<std::byte> buffer_;
};

// XXH3-128 of the text of a manifest.json, hex.
std::string ManifestDigest(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_CHECKPOINT_READER_H_
