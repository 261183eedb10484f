#ifndef STAGECOACH_COORDINATOR_CHECKPOINT_FILES_H_
#define STAGECOACH_COORDINATOR_CHECKPOINT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_system.h"
#include "stagecoach/v1/checkpoint.pb.h"

namespace stagecoach {

// A new, empty directory PARENT/step-00000020, or PARENT/step-00000020.2 and so on when an earlier run has left one:
// what is there may be a good checkpoint, and is never written into. Errors of the file system.
absl::StatusOr<std::string> MakeCheckpointDirectory(FileSystem& files, const std::string& parent, uint64_t step);

// The manifest, which makes the directory a checkpoint. Errors of the file system.
absl::Status WriteManifestFile(FileSystem& files, const std::string& directory, const v1::CheckpointManifest& manifest);

}  // namespace stagecoach

#endif  // STAGECOACH_COORDINATOR_CHECKPOINT_FILES_H_
