#ifndef STAGECOACH_FORMATS_SHARD_READER_H_
#define STAGECOACH_FORMATS_SHARD_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_system.h"
#include "formats/safetensors.h"
#include "formats/tensor_digest.h"
#include "stagecoach/v1/checkpoint.pb.h"

namespace stagecoach {

// A shard of a checkpoint, read against what the manifest says of it. Messages of errors name the file, and the tensor
// where there is one. Used by one thread.
class ShardReader {
 public:
  // Takes the bytes of a tensor, or of a file, piece by piece; `offset` counts from its beginning. An error ends the
  // reading.
  using Sink = std::function<absl::Status(uint64_t offset, std::span<const std::byte> piece)>;

  // Number `index` of `manifest`, which CheckManifest has passed and which outlives the shard. DATA_LOSS: the file is
  // not there, has another size, is no safetensors file, or is the shard of another attempt. Errors of the file system
  // keep their codes.
  static absl::StatusOr<ShardReader> Open(FileSystem& files, const std::string& checkpoint,
                                          const v1::CheckpointManifest& manifest, uint32_t index);

  const SafetensorsReader& reader() const { return reader_; }
  const v1::CheckpointShard& entry() const { return manifest_->shards(static_cast<int>(index_)); }

  // What the manifest says of a tensor of the file. DATA_LOSS: it has none of this name in this shard, or one of
  // another dtype or shape.
  absl::StatusOr<const v1::CheckpointTensor*> Expected(const SafetensorsTensor& tensor) const;
  // All bytes of a tensor, through `buffer`, whose size is a multiple of four; their digest. DATA_LOSS: the manifest
  // says another one. All of them have gone to `sink` by then.
  absl::StatusOr<TensorDigest> Read(const SafetensorsTensor& tensor, const v1::CheckpointTensor& expected,
                                    std::span<std::byte> buffer, const Sink& sink) const;
  // A tensor that the manifest has in this shard. DATA_LOSS: the file does not, or as above.
  absl::Status Read(const v1::CheckpointTensor& expected, std::span<std::byte> buffer, const Sink& sink) const;

  // DATA_LOSS for the file.
  absl::Status Error(absl::string_view message) const;

 private:
  ShardReader(const v1::CheckpointManifest& manifest, uint32_t index, SafetensorsReader reader)
      : manifest_(&manifest), index_(index), reader_(std::move(reader)) {}
  absl::Status CheckMetadata() const;
  absl::Status Differs(absl::string_view tensor, absl::string_view message) const;

  const v1::CheckpointManifest* manifest_;
  uint32_t index_;
  SafetensorsReader reader_;
};

// The tensor of this name; null: none. Of a manifest whose tensors are in bytewise name order.
const v1::CheckpointTensor* FindCheckpointTensor(const v1::CheckpointManifest& manifest, absl::string_view name);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_SHARD_READER_H_
