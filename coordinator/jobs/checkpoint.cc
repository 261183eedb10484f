#include "coordinator/jobs/checkpoint.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/jobs/job_end.h"
#include "coordinator/jobs/job_state.h"
#include "coordinator/jobs/manifest.h"
#include "coordinator/jobs/step.h"
#include "formats/checkpoint.h"

namespace stagecoach {
namespace {

void EndAfterCheckpoint(JobDecision& decision, const std::string& directory) {
  if (decision.history().state == v1::JOB_STATE_CANCELLING) {
    EndJob(decision, v1::JOB_STATE_CANCELLED, kReasonCancelRequested,
           absl::StrCat("cancelled after step ", decision.history().last_commit.step(), "; checkpoint in ", directory));
  } else {
    EndJob(decision, v1::JOB_STATE_SUCCEEDED, kReasonCompleted, absl::StrCat("checkpoint in ", directory));
  }
}

}  // namespace

void FinishTraining(JobDecision& decision) {
  const uint64_t step = decision.history().last_commit.step();
  if (decision.job().progress.phase != Phase::kFinishing) decision.EnterPhase(Phase::kFinishing);
  // In an epoch that began after the step nobody has been asked for the digests of its state.
  if (step > 0 && decision.job().progress.commit_sent.value() != step) SendCommit(decision);
  const bool all_applied = decision.AllMembers([step](const MemberProgress& member) {
    return step == 0 || (member.applied != nullptr && member.applied->step() == step);
  });
  if (!all_applied) return;
  decision.EnterPhase(Phase::kMakingDirectory);
  decision.ChangeState(decision.history().state, kReasonWritingCheckpoint, absl::StrCat("of step ", step));
  decision.Add(
      MakeDirectory{decision.job().id, decision.history().epoch, decision.spec().checkpoint().dir(), Step(step)});
}

bool OnDirectoryMade(JobDecision& decision, const DirectoryMade& input) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kMakingDirectory || input.epoch != decision.history().epoch) return false;
  if (!input.directory.ok()) {
    FailJob(decision, kReasonCheckpointFailed, input.directory.status());
    return true;
  }
  progress.checkpoint_directory = *input.directory;
  decision.EnterPhase(Phase::kWritingShards);
  v1::CoordinatorMessage message;
  v1::WriteCheckpoint& write = *message.mutable_write_checkpoint();
  write.set_step(decision.history().last_commit.step());
  write.set_directory(progress.checkpoint_directory);
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    write.set_file(ShardFileName(StageIndex(rank)));
    decision.Send(WorkerRank(rank), message);
  }
  return true;
}

bool OnShardWritten(JobDecision& decision, WorkerRank rank, const v1::ShardWritten& message) {
  JobProgress& progress = decision.progress();
  if (progress.phase != Phase::kWritingShards || decision.said(rank).shard != nullptr) return false;
  if (message.step() != decision.history().last_commit.step()) return false;
  if (message.file() != ShardFileName(StageIndex(rank.value()))) return false;
  decision.said(rank).shard = std::make_shared<const v1::ShardWritten>(message);
  if (!decision.AllMembers([](const MemberProgress& member) { return member.shard != nullptr; })) return true;
  absl::StatusOr<v1::CheckpointManifest> manifest = BuildManifest(decision.job(), decision.term());
  if (!manifest.ok()) {
    FailJob(decision, kReasonCheckpointFailed, manifest.status());
    return true;
  }
  decision.EnterPhase(Phase::kWritingManifest);
  progress.manifest_digest = manifest->digest();
  progress.manifest_state_digest = manifest->state_digest();
  decision.Add(
      WriteManifest{decision.job().id, decision.history().epoch, progress.checkpoint_directory, *std::move(manifest)});
  return true;
}

bool OnManifestWritten(JobDecision& decision, const ManifestWritten& input) {
  const JobProgress& progress = decision.job().progress;
  if (progress.phase != Phase::kWritingManifest || input.epoch != decision.history().epoch) return false;
  if (!input.status.ok()) {
    FailJob(decision, kReasonCheckpointFailed, input.status);
    return true;
  }
  const std::string directory = progress.checkpoint_directory;
  v1::JournalEntry entry;
  v1::CheckpointCompleted& completed = *entry.mutable_checkpoint_completed();
  completed.set_job(decision.job().id.value());
  completed.set_step(decision.history().last_commit.step());
  completed.set_directory(directory);
  completed.set_digest(progress.manifest_digest);
  completed.set_state_digest(progress.manifest_state_digest);
  decision.Append(std::move(entry));
  EndAfterCheckpoint(decision, directory);
  return true;
}

}  // namespace stagecoach
