#ifndef STAGECOACH_FORMATS_CHECKPOINT_H_
#define STAGECOACH_FORMATS_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "common/ids.h"
#include "stagecoach/v1/checkpoint.pb.h"

namespace stagecoach {

// Checkpoints on disk. DIR is checkpoint.dir of a job:
//
//   DIR/
//     step-0000000020/
//       stage-00000.safetensors   parameters and optimizer state that stage 0 owns; written by its worker
//       stage-00001.safetensors
//       manifest.json             CheckpointManifest; written by the coordinator when it has the receipts of all shards
//     step-0000000020.2/          a later run's; what is there is never written into again
//     step-0000000040/            without a manifest: not a checkpoint (being written, or its writer died)
//     latest                      the name of the newest one, "step-0000000020.2"
//
// Order of writing: every shard (temporary file, fsync, rename, fsync of the directory), then the manifest, then
// `latest`. Readers can do without `latest`. All functions are pure but for the files; the messages of their errors
// name the file, and the tensor where there is one.

std::string CheckpointDirectoryName(Step step);  // step-0000000020
std::string ShardFileName(StageIndex stage);     // stage-00000.safetensors

// Makes a new directory for the shards: DIR/step-NNNNNNNNNN, or that with ".2" and so on when it is taken. DIR is made
// too. Returns its path.
absl::StatusOr<std::string> MakeCheckpointDirectory(FileSystem& files, const std::string& directory, Step step);

// Makes the shards in `checkpoint`, which MakeCheckpointDirectory has returned, a checkpoint: manifest, then `latest`.
// FAILED_PRECONDITION: a shard is not there, or not of the size in the manifest. DATA_LOSS: CheckManifest refuses the
// manifest. Errors of `may_go_on`, which is asked before each of the two files is written. After an error the
// checkpoint before this one is still the one that `latest` names.
absl::Status PublishCheckpoint(FileSystem& files, const std::string& checkpoint, const v1::CheckpointManifest& manifest,
                               const std::function<absl::Status()>& may_go_on = absl::OkStatus);

struct CheckpointDirectory {
  std::string path;
  Step step;
  uint64_t number = 1;      // 2: step-NNNNNNNNNN.2
  bool is_complete = true;  // it has a manifest
};
// What MakeCheckpointDirectory has made in `directory`, the newest (highest step and number) first. Nothing is opened
// but the directory and, to see whether they are there, the manifests. NOT_FOUND: no such directory.
absl::StatusOr<std::vector<CheckpointDirectory>> ListCheckpoints(FileSystem& files, const std::string& directory);

// `path` when it is a checkpoint; otherwise the newest checkpoint in it: the one that `latest` names, or, if that is
// not complete, the one of the highest step (and number). NOT_FOUND: none.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& path);

// Of a checkpoint; the shards are not looked at. DATA_LOSS: see ParseManifest.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& files, const std::string& checkpoint);

struct VerifiedCheckpoint {
  std::string path;
  v1::CheckpointManifest manifest;
  // From the bytes of the shards; equal to the manifest's.
  std::string digest;
  std::string state_digest;
};
// Finds the checkpoint and reads every byte of it once: size and digest of each shard, which tensors it has, the digest
// of each, and the digests of the model. DATA_LOSS: anything differs or is missing.
absl::StatusOr<VerifiedCheckpoint> VerifyCheckpoint(FileSystem& files, const std::string& path);

}  // namespace stagecoach

#endif  // STAGECOACH_FORMATS_CHECKPOINT_H_
