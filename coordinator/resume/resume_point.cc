#include "coordinator/resume/resume_point.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/quoted.h"
#include "common/status_macros.h"
#include "coordinator/resume/spec_changes.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_manifest.h"
#include "formats/corpus_identity.h"
#include "formats/file_digest.h"

namespace stagecoach {
namespace {

using IdentifyData = std::function<absl::StatusOr<CorpusIdentity>()>;

// The codes of a file system mean other things here: a file in the place of a directory is no change of the
// specification.
absl::Status Unreadable(const absl::Status& status) {
  return absl::UnknownError(absl::StrCat("the checkpoints cannot be read: ", status.message()));
}

bool IsVerdict(const absl::Status& status) { return absl::IsNotFound(status) || absl::IsDataLoss(status); }

absl::StatusOr<std::string> DigestOfManifest(FileSystem& files, const std::string& checkpoint) {
  const absl::StatusOr<std::string> text =
      ReadFile(files, absl::StrCat(checkpoint, "/", kManifestFileName), kMaxManifestBytes);
  if (!text.ok()) return Unreadable(text.status());
  FileDigest digest;
  digest.Add(text->data(), text->size());
  return digest.Hex();
}

absl::Status CheckData(const VerifiedCheckpoint& checkpoint, const IdentifyData& training_data) {
  STAGECOACH_ASSIGN_OR_RETURN(const CorpusIdentity now, training_data());
  const v1::DataIdentity& then = checkpoint.manifest.training_data();
  if (now.bytes == then.bytes() && now.digest == then.digest()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      checkpoint.path, " cannot be resumed from with other training data: it had ", then.bytes(), " bytes of digest ",
      Quoted(then.digest()), ", and has ", now.bytes, " bytes of digest ", Quoted(now.digest)));
}

absl::StatusOr<ResumePoint> ResumeFrom(FileSystem& files, const VerifiedCheckpoint& checkpoint, const v1::JobSpec& spec,
                                       const IdentifyData& training_data, std::vector<std::string> notes) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest;
  const SpecChanges changes = CompareSpecs(manifest.spec(), spec);
  if (!changes.forbidden.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(checkpoint.path, " cannot be resumed from with another ",
                                                      absl::StrJoin(changes.forbidden, ", "),
                                                      "; choose another checkpoint.dir, or checkpoint.resume never"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckData(checkpoint, training_data));
  v1::JobResumed resumed;
  v1::CheckpointCompleted& completed = *resumed.mutable_checkpoint();
  completed.set_job(manifest.job());
  completed.set_step(manifest.step());
  completed.set_directory(checkpoint.path);
  completed.set_digest(checkpoint.digest);
  completed.set_state_digest(checkpoint.state_digest);
  *resumed.mutable_last_commit() = manifest.last_commit();
  STAGECOACH_ASSIGN_OR_RETURN(*resumed.mutable_manifest_digest(), DigestOfManifest(files, checkpoint.path));
  for (const std::string& change : changes.allowed) notes.push_back(change);
  for (std::string& note : notes) resumed.add_notes(std::move(note));
  return ResumePoint{.resumed = std::make_shared<const v1::JobResumed>(std::move(resumed)),
                     .micro_batch_size = manifest.spec().training().micro_batch_size()};
}

// Verified: what there is to read may be damaged, but not missing.
absl::StatusOr<VerifiedCheckpoint> VerifyNamed(FileSystem& files, const v1::CheckpointSpec& spec) {
  const std::string path = absl::StrCat(spec.dir(), "/", spec.resume());
  absl::StatusOr<VerifiedCheckpoint> checkpoint = VerifyCheckpoint(files, path);
  if (absl::IsNotFound(checkpoint.status())) {
    return absl::NotFoundError(absl::StrCat("checkpoint.resume: there is no checkpoint ", path));
  }
  if (!checkpoint.ok() && !IsVerdict(checkpoint.status())) return Unreadable(checkpoint.status());
  return checkpoint;
}

}  // namespace

absl::StatusOr<ResumePoint> FindResumePoint(FileSystem& files, const v1::JobSpec& spec,
                                            const IdentifyData& training_data) {
  const v1::CheckpointSpec& checkpoint = spec.checkpoint();
  if (checkpoint.resume().empty() || checkpoint.resume() == "never") return ResumePoint();
  if (checkpoint.resume() != "auto") {
    STAGECOACH_ASSIGN_OR_RETURN(const VerifiedCheckpoint named, VerifyNamed(files, checkpoint));
    return ResumeFrom(files, named, spec, training_data, {});
  }
  const absl::StatusOr<std::vector<CheckpointDirectory>> found = ListCheckpoints(files, checkpoint.dir());
  if (absl::IsNotFound(found.status())) return ResumePoint();
  if (!found.ok()) return Unreadable(found.status());
  std::vector<std::string> damaged;
  for (const CheckpointDirectory& candidate : *found) {
    if (!candidate.is_complete) continue;
    const absl::StatusOr<VerifiedCheckpoint> verified = VerifyCheckpoint(files, candidate.path);
    if (verified.ok()) return ResumeFrom(files, *verified, spec, training_data, std::move(damaged));
    if (!absl::IsDataLoss(verified.status())) return Unreadable(verified.status());
    damaged.push_back(absl::StrCat("passed over: ", verified.status().message()));
  }
  if (damaged.empty()) return ResumePoint();
  return absl::DataLossError(
      absl::StrCat("no checkpoint in ", checkpoint.dir(), " verifies: ", absl::StrJoin(damaged, "; ")));
}

}  // namespace stagecoach
