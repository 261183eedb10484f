#include "formats/checkpoint_retention.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"

namespace stagecoach {

absl::Status CheckpointRetention::Verify(const std::string& checkpoint, const std::string& digest) {
  const auto known = verified_.find(checkpoint);
  if (known != verified_.end() && known->second == digest) return absl::OkStatus();
  STAGECOACH_RETURN_IF_ERROR(VerifyCheckpoint(files_, checkpoint).status());
  verified_[checkpoint] = digest;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CheckpointRetention::Prune(const std::string& directory,
                                                                    const std::string& job_name, uint32_t keep_last) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<CheckpointDirectory> found, ListCheckpoints(files_, directory));
  std::vector<std::string> removed;
  uint32_t num_verified = 0;
  for (const CheckpointDirectory& checkpoint : found) {
    if (!checkpoint.is_complete) continue;
    const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(files_, checkpoint.path);
    const bool is_others = !job_name.empty() && (!manifest.ok() || manifest->spec().name() != job_name);
    if (is_others) continue;
    if (num_verified >= keep_last) {
      STAGECOACH_RETURN_IF_ERROR(files_.RemoveTree(absl::StrCat(checkpoint.path, "/", kManifestFileName)));
      STAGECOACH_RETURN_IF_ERROR(files_.RemoveTree(checkpoint.path));
      verified_.erase(checkpoint.path);
      removed.push_back(checkpoint.path);
    } else if (manifest.ok() && Verify(checkpoint.path, manifest->state_digest()).ok()) {
      ++num_verified;
    }
  }
  return removed;
}

}  // namespace stagecoach
