#include "coordinator/checkpoint_files.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/proto_json.h"
#include "common/status_macros.h"

namespace stagecoach {

absl::StatusOr<std::string> MakeCheckpointDirectory(FileSystem& files, const std::string& parent, uint64_t step) {
  STAGECOACH_RETURN_IF_ERROR(files.CreateDirectories(parent));
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(parent));
  const std::string base = absl::StrFormat("step-%08d", step);
  std::string name = base;
  for (int number = 2; std::binary_search(names.begin(), names.end(), name); ++number) {
    name = absl::StrCat(base, ".", number);
  }
  const std::string directory = absl::StrCat(parent, "/", name);
  STAGECOACH_RETURN_IF_ERROR(files.CreateDirectories(directory));
  return directory;
}

absl::Status WriteManifestFile(FileSystem& files, const std::string& directory,
                               const v1::CheckpointManifest& manifest) {
  return WriteFileAtomically(files, absl::StrCat(directory, "/manifest.json"),
                             absl::StrCat(PrintJson(manifest, JsonLayout::kIndented), "\n"));
}

}  // namespace stagecoach
