#include "coordinator/jobs/checkpoint.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/jobs/checkpoint_times.h"
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
  decision.progress().checkpoint.deadline = absl::InfiniteDuration();
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

// A member that is late gets its order when it has answered the one before.
void OrderShard(JobDecision& decision, WorkerRank rank) {
  const CheckpointAttempt& attempt = decision.job().progress.checkpoint;
  if (attempt.stage != Phase::kWritingShards || decision.said(rank).late_shard != Step()) return;
  v1::CoordinatorMessage message;
  v1::WriteCheckpoint& write = *message.mutable_write_checkpoint();
  write.set_step(attempt.record.step());
  write.set_directory(attempt.directory);
  write.set_file(ShardFileName(StageIndex(rank.value())));
  write.set_from_snapshot(attempt.from_snapshot);
  decision.Send(rank, std::move(message));
}

// Whether it answers an order of an attempt that was given up.
bool TakeLateAnswer(JobDecision& decision, WorkerRank rank, uint64_t step) {
  Step& late = decision.said(rank).late_shard;
  if (late == Step() || late != Step(step)) return false;
  late = Step();
  OrderShard(decision, rank);
  return true;
}

bool HasAnswered(const MemberProgress& member) { return member.shard != nullptr || member.shard_failed; }

// What the attempt waits for.
std::string WhatIsLate(JobDecision& decision) {
  switch (decision.progress().checkpoint.stage) {
    case Phase::kMakingDirectory:
      return "its directory has not been made";
    case Phase::kWritingShards:
      for (uint32_t rank = 0; rank < decision.num_members(); ++rank) {
        const MemberProgress& member = decision.said(WorkerRank(rank));
        if (HasAnswered(member)) continue;
        const std::string name = MemberName(decision.job(), WorkerRank(rank));
        if (member.late_shard == Step()) return absl::StrCat(name, " has not written its shard");
        return absl::StrCat(name, " is still writing its shard of step ", member.late_shard.value());
      }
      return "";
    default:
      return "its manifest has not been written";
  }
}

// All have answered before another attempt begins: a worker writes one shard at a time.
void GoOnWithShards(JobDecision& decision) {
  if (!decision.AllMembers(HasAnswered)) return;
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
  if (from_snapshot) {
    progress.checkpoint.deadline = decision.now() + CheckpointTimeout(*progress.plan, decision.options());
  }
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
  attempt.deadline = absl::InfiniteDuration();
  decision.progress().checkpoint_due = true;
}

void OnCheckpointLate(JobDecision& decision) {
  CheckpointAttempt& attempt = decision.progress().checkpoint;
  std::string message = absl::StrCat("it is not complete after ",
                                     absl::FormatDuration(decision.now() - decision.progress().checkpoint_begun), ": ",
                                     WhatIsLate(decision));
  if (!attempt.failure.empty()) absl::StrAppend(&message, "; ", attempt.failure);
  if (attempt.stage == Phase::kWritingShards) {
    for (MemberProgress& member : decision.progress().said) {
      const bool was_asked = member.late_shard == Step();
      if (was_asked && !HasAnswered(member)) member.late_shard = Step(attempt.record.step());
    }
  }
  if (attempt.stage == Phase::kWritingManifest) {
    decision.Add(AbandonManifest{decision.job().id, attempt.number});
    attempt.directory.clear();  // it stays: a checkpoint may be complete in it by now
  }
  FailAttempt(decision, absl::DeadlineExceededError(message));
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
  for (uint32_t rank = 0; rank < decision.num_members(); ++rank) OrderShard(decision, WorkerRank(rank));
  return true;
}

bool OnShardWritten(JobDecision& decision, WorkerRank rank, const v1::ShardWritten& message) {
  if (TakeLateAnswer(decision, rank, message.step())) return true;
  if (!AwaitsShard(decision, rank, message.step(), message.file())) return false;
  decision.said(rank).shard = std::make_shared<const v1::ShardWritten>(message);
  GoOnWithShards(decision);
  return true;
}

bool OnShardFailed(JobDecision& decision, WorkerRank rank, const v1::ShardFailed& message) {
  if (TakeLateAnswer(decision, rank, message.step())) return true;
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
