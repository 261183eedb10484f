#ifndef STAGECOACH_CLIENT_COMMANDS_CHECKPOINT_LIST_H_
#define STAGECOACH_CLIENT_COMMANDS_CHECKPOINT_LIST_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/output_arguments.h"
#include "client/output/json.h"
#include "common/file_system.h"
#include "formats/checkpoint.h"
#include "stagecoach/v1/checkpoint.pb.h"
#include "stagecoach/v1/coordinator.pb.h"

namespace stagecoach {

// Checkpoints as lists show them: on the file system of this machine, by their manifests, or read whole.

struct FoundCheckpoint {
  CheckpointDirectory checkpoint;
  absl::StatusOr<v1::CheckpointManifest> manifest;
  std::string state;    // COMPLETE, VERIFIED, INCOMPLETE or DAMAGED
  std::string message;  // of what is wrong
};

// `path` itself when it is a checkpoint, otherwise all in it, the newest first. NOT_FOUND: none. Errors of the file
// system.
absl::StatusOr<std::vector<CheckpointDirectory>> CheckpointsAt(FileSystem& files, const std::string& path);

// Nothing: it was removed meanwhile, by a job that keeps only the newest.
std::optional<FoundCheckpoint> LookAtCheckpoint(FileSystem& files, const CheckpointDirectory& checkpoint, bool verify);

// By their manifests those that the job has written, and its newest, which may be the one that it was resumed from;
// also damaged ones, which may be anybody's. The newest first. None: it has none. Errors of the file system, which say
// where the newest is.
absl::StatusOr<std::vector<FoundCheckpoint>> CheckpointsOfJob(FileSystem& files, const v1::Job& job);

Json CheckpointJson(const FoundCheckpoint& found);
Listing CheckpointListing(const std::vector<FoundCheckpoint>& found);

}  // namespace stagecoach

#endif  // STAGECOACH_CLIENT_COMMANDS_CHECKPOINT_LIST_H_
