#ifndef STAGECOACH_FORMATS_CHECKPOINT_MANIFEST_H_
#define STAGECOACH_FORMATS_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ids.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/worker.pb.h"

namespace stagecoach {

inline constexpr char kManifestFileName[] = "manifest.json";
inline constexpr uint32_t kManifestVersion = 1;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;

// A name without a directory part that can be printed as it is: what a manifest or a message may call a file.
bool IsPlainFileName(absl::string_view name);

// What a worker said about the shard that it wrote.
struct ShardReceipt {
  v1::ShardWritten written;
  Incarnation writer;
};
// Fills shards, tensors, digest and state_digest of `manifest`, whose other fields are set, from the receipts of all
// stages in pipeline order. INVALID_ARGUMENT: a receipt of another step, a tensor in two shards, or a manifest that
// CheckManifest refuses.
absl::Status AddShards(std::span<const ShardReceipt> receipts, v1::CheckpointManifest& manifest);

// That it makes sense by itself: version, plain and different file names, digests of the right form, every tensor once,
// in bytewise name order and in one of the shards, shapes that do not overflow and fit into their shard, and digests of
// the model that follow from those of the tensors. Returns what is wrong as DATA_LOSS.
absl::Status CheckManifest(const v1::CheckpointManifest& manifest);

std::string PrintManifest(const v1::CheckpointManifest& manifest);
// DATA_LOSS: not JSON of the form, or CheckManifest refuses it.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(absl::string_view text);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_CHECKPOINT_MANIFEST_H_
