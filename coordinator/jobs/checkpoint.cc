#include "coordinator/jobs/checkpoint.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/jobs/failure_cause.h"
#include "coordinator/jobs/finish.h"
#include "coordinator/jobs/manifest.h"
#include "formats/checkpoint.h"

namespace stagecoach {
namespace {

void Advance(JobDecision& decision, Phase stage) {
  decision.progress().checkpoint.stage = stage;
  if (WaitsForCheckpoint(decision.progress().phase)) decision.EnterPhase(stage);
}

void EndAttempt(JobDecision& decision, const absl::Status& status) {
  decision.progress().checkpoint.stage = Phase::kNone;
  for (MemberProgress& member : decision.progress().said) {
    member.shard = nullptr;
    member.shard_failed = false;
  }
  OnCheckpointEnded(decision, status);
}

void RemoveRemains(JobDecision& decision) {
  const std::string& directory = decision.progress().checkpoint.directory;
  if (!directory.empty()) decision.Add(RemoveDirectory{directory});
}

void FailAttempt(JobDecision& decision, const absl::Status& status) {
  CheckpointAttempt& attempt = decision.progress().checkpoint;
  v1::JournalEntry entry;
  v1::CheckpointFailed& failed = *entry.mutable_checkpoint_failed();
  failed.set_job(decision.job().id.value());
  failed.set_step(attempt.record.step());
  failed.set_message(std::string(status.message()));
  decision.Append(std::move(entry));
  RemoveRemains(decision);
  EndAttempt(decision, status);
}

void CompleteAttempt(JobDecision& decision) {
  const CheckpointAttempt& attempt = decision.progress().checkpoint;
  v1::JournalEntry entry;
  v1::CheckpointCompleted& completed = *entry.mutable_checkpoint_completed();
  completed.set_job(decision.job().id.value());
  completed.set_step(attempt.record.step());
  completed.set_directory(attempt.directory);
  completed.set_digest(attempt.digest);
  completed.set_state_digest(attempt.state_digest);
  decision.Append(std::move(entry));
  const v1::CheckpointSpec& spec = decision.spec().checkpoint();
  if (spec.keep_last() > 0) decision.Add(PruneOldCheckpoints{spec.dir(), decision.spec().name(), spec.keep_last()});
  EndAttempt(decision, absl::OkStatus());
}

void WriteManifestOf(JobDecision& decision) {
  CheckpointAttempt& attempt = decision.progress().checkpoint;
  absl::StatusOr<v1::CheckpointManifest> manifest = BuildManifest(decision.job(), decision.term());
  if (!manifest.ok()) return FailAttempt(decision, manifest.status());
  attempt.digest = manifest->digest();
  attempt.state_digest = manifest->state_digest();
  Advance(decision, Phase::kWritingManifest);
  decision.Add(WriteManifest{decision.job().id, attempt.number, attempt.directory, *std::move(manifest)});
}

bool AwaitsShard(JobDecision& decision, WorkerRank rank, uint64_t step, const std::string& file) {
  const CheckpointAttempt& attempt = decision.job().progress.checkpoint;
  const MemberProgress& member = decision.said(rank);
  return attempt.stage == Phase::kWritingShards && member.shard == nullptr && !member.shard_failed &&
         step == attempt.record.step() && file == ShardFileName(StageIndex(rank.value()));
}

// All have answered before another attempt begins: a worker writes one shard at a time.
void GoOnWithShards(JobDecision& decision) {
  const bool all_answered =
      decision.AllMembers([](const MemberProgress& member) { return member.shard != nullptr || member.shard_failed; });
  if (!all_answered) return;
  const std::string& failure = decision.job().progress.checkpoint.failure;
  if (!failure.empty()) return FailAttempt(decision, absl::UnavailableError(failure));
  WriteManifestOf(decision);
}

}  // namespace

void BeginCheckpoint(JobDecision& decision, bool from_snapshot) {
  JobProgress& progress = decision.progress();
  STAGECOACH_CHECK(progress.checkpoint.stage == Phase::kNone);
  const uint64_t number = progress.checkpoint.number + 1;
  progress.checkpoint = {.stage = Phase::kMakingDirectory,
                         .number = number,
                         .from_snapshot = from_snapshot,
                         .record = decision.history().last_commit,
                         .directory = "",
                         .failure = "",
                         .digest = "",
                         .state_digest = ""};
  progress.checkpoint_due = false;
  progress.checkpoint_begun = decision.now();
  decision.Add(MakeDirectory{decision.job().id, number, decision.spec().checkpoint().dir(),
                             Step(decision.history().last_commit.step())});
}

void AwaitCheckpoint(JobDecision& decision) {
  if (decision.progress().checkpoint.stage == Phase::kNone) BeginCheckpoint(decision, /*from_snapshot=*/false);
  decision.EnterPhase(decision.progress().checkpoint.stage);
}

void ForgetCheckpoint(JobDecision& decision) {
  CheckpointAttempt& attempt = decision.progress().checkpoint;
  if (attempt.stage == Phase::kNone) return;
  // What is already being published may be complete by now.
  if (attempt.stage == Phase::kWritingShards) RemoveRemains(decision);
  attempt.stage = Phase::kNone;
  decision.progress().checkpoint_due = true;
}

bool OnDirectoryMade(JobDecision& decision, const DirectoryMade& input) {
  CheckpointAttempt& attempt = decision.progress().checkpoint;
  if (attempt.stage != Phase::kMakingDirectory || input.attempt != attempt.number) {
    if (!input.directory.ok()) return false;
    decision.Add(RemoveDirectory{*input.directory});  // nobody waits for it any more
    return true;
  }
  if (!input.directory.ok()) {
    FailAttempt(decision, input.directory.status());
    return true;
  }
  attempt.directory = *input.directory;
  Advance(decision, Phase::kWritingShards);
  v1::CoordinatorMessage message;
  v1::WriteCheckpoint& write = *message.mutable_write_checkpoint();
  write.set_step(attempt.record.step());
  write.set_directory(attempt.directory);
  write.set_from_snapshot(attempt.from_snapshot);
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
    write.set_file(ShardFileName(StageIndex(rank)));
    decision.Send(WorkerRank(rank), message);
  }
  return true;
}

bool OnShardWritten(JobDecision& decision, WorkerRank rank, const v1::ShardWritten& message) {
  if (!AwaitsShard(decision, rank, message.step(), message.file())) return false;
  decision.said(rank).shard = std::make_shared<const v1::ShardWritten>(message);
  GoOnWithShards(decision);
  return true;
}

bool OnShardFailed(JobDecision& decision, WorkerRank rank, const v1::ShardFailed& message) {
  if (!AwaitsShard(decision, rank, message.step(), message.file())) return false;
  decision.said(rank).shard_failed = true;
  std::string& failure = decision.progress().checkpoint.failure;
  if (failure.empty()) {
    failure =
        absl::StrCat(MemberName(decision.job(), rank), ": ",
                     absl::StatusCodeToString(static_cast<absl::StatusCode>(message.code())), ": ", message.message());
  }
  GoOnWithShards(decision);
  return true;
}

bool OnManifestWritten(JobDecision& decision, const ManifestWritten& input) {
  const CheckpointAttempt& attempt = decision.job().progress.checkpoint;
  if (attempt.stage != Phase::kWritingManifest || input.attempt != attempt.number) return false;
  if (input.status.ok()) {
    CompleteAttempt(decision);
  } else {
    FailAttempt(decision, input.status);
  }
  return true;
}

}  // namespace stagecoach
