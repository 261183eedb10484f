#include "client/commands/checkpoint_list.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

uint64_t BytesOf(const v1::CheckpointManifest& manifest) {
  uint64_t bytes = 0;
  for (const v1::CheckpointShard& shard : manifest.shards()) bytes += shard.bytes();
  return bytes;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

absl::StatusOr<std::vector<CheckpointDirectory>> CheckpointsAt(FileSystem& files, const std::string& path) {
  if (const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(files, path);
      manifest.ok() || absl::IsDataLoss(manifest.status())) {
    const Step step(manifest.ok() ? manifest->step() : 0);
    return std::vector<CheckpointDirectory>{{.path = path, .step = step, .number = 1, .is_complete = true}};
  }
  absl::StatusOr<std::vector<CheckpointDirectory>> found = ListCheckpoints(files, path);
  if (found.ok() && found->empty()) return absl::NotFoundError(absl::StrCat("no checkpoint in ", path));
  return found;
}

std::optional<FoundCheckpoint> LookAtCheckpoint(FileSystem& files, const CheckpointDirectory& checkpoint, bool verify) {
  FoundCheckpoint found{checkpoint, absl::NotFoundError("it has no manifest"), "INCOMPLETE", ""};
  if (!checkpoint.is_complete) return found;
  found.manifest = ReadManifest(files, checkpoint.path);
  found.state = verify ? "VERIFIED" : "COMPLETE";
  const absl::Status status =
      verify && found.manifest.ok() ? VerifyCheckpoint(files, checkpoint.path).status() : found.manifest.status();
  if (status.ok()) return found;
  if (absl::IsNotFound(ReadManifest(files, checkpoint.path).status())) return std::nullopt;
  found.state = "DAMAGED";
  found.message = std::string(status.message());
  return found;
}

absl::StatusOr<std::vector<FoundCheckpoint>> CheckpointsOfJob(FileSystem& files, const v1::Job& job) {
  const std::string& newest = job.checkpoint_directory();
  std::vector<FoundCheckpoint> of_job;
  if (newest.empty()) return of_job;
  const absl::StatusOr<std::vector<CheckpointDirectory>> all = ListCheckpoints(files, ParentOf(newest));
  if (!all.ok()) {
    return WithContext(
        all.status(), absl::StrCat("the newest checkpoint of job ", job.status().job(), " is of step ",
                                   job.checkpoint_step(), ", in ", newest, ", which cannot be read from this machine"));
  }
  for (const CheckpointDirectory& checkpoint : *all) {
    std::optional<FoundCheckpoint> found = LookAtCheckpoint(files, checkpoint, /*verify=*/false);
    if (!found) continue;
    const bool is_its_own = found->manifest.ok() && found->manifest->job() == job.status().job();
    if (is_its_own || checkpoint.path == newest || found->state == "DAMAGED") of_job.push_back(*std::move(found));
  }
  return of_job;
}

Json CheckpointJson(const FoundCheckpoint& found) {
  const v1::CheckpointManifest manifest = found.manifest.ok() ? *found.manifest : v1::CheckpointManifest();
  return {{"path", found.checkpoint.path},
          {"step", found.checkpoint.step.value()},
          {"state", found.state},
          {"message", found.message},
          {"job", manifest.job()},
          {"bytes", BytesOf(manifest)},
          {"shards", manifest.shards_size()},
          {"digest", manifest.digest()},
          {"state_digest", manifest.state_digest()}};
}

Listing CheckpointListing(const std::vector<FoundCheckpoint>& found) {
  Listing listing{.key = "checkpoints", .table = Table({"STEP", "STATE", "JOB", "BYTES", "SHARDS", "DIGEST", "PATH"})};
  for (const FoundCheckpoint& one : found) {
    const v1::CheckpointManifest manifest = one.manifest.ok() ? *one.manifest : v1::CheckpointManifest();
    const bool is_bad = one.state == "DAMAGED";
    listing.names.push_back(one.checkpoint.path);
    listing.items.push_back(CheckpointJson(one));
    listing.table.AddRow({absl::StrCat(one.checkpoint.step.value()),
                          Cell(one.state, is_bad ? Tone::kBad : Tone::kPlain), manifest.job(),
                          absl::StrCat(BytesOf(manifest)), absl::StrCat(manifest.shards_size()), manifest.digest(),
                          one.checkpoint.path});
  }
  return listing;
}

}  // namespace stagecoach
