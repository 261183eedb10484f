#include "coordinator/jobs/checkpoint_times.h"

#include <algorithm>

#include "common/snapshots.h"
#include "coordinator/jobs/step.h"

namespace stagecoach {

void NoteCheckpointDue(JobDecision& decision) {
  const v1::CheckpointSpec& spec = decision.spec().checkpoint();
  JobProgress& progress = decision.progress();
  const uint64_t step = decision.history().last_commit.step();
  const bool by_steps = spec.interval_steps() > 0 && step % spec.interval_steps() == 0;
  const bool by_time = spec.interval_seconds() > 0 &&
                       decision.now() - progress.checkpoint_begun >= absl::Seconds(spec.interval_seconds());
  if (by_steps || by_time) progress.checkpoint_due = true;
}

bool SnapshotIsDue(const JobDecision& decision) {
  const JobProgress& progress = decision.job().progress;
  return progress.checkpoint_due && progress.checkpoint.stage == Phase::kNone &&
         TakesSnapshots(decision.spec().checkpoint()) &&
         !IsLastStep(decision.job(), decision.history().last_commit.step());
}

bool MustAwaitCheckpoint(const JobDecision& decision) {
  return decision.job().progress.checkpoint_due && !TakesSnapshots(decision.spec().checkpoint()) &&
         decision.history().last_commit.step() > CheckpointedStep(decision.history());
}

absl::Duration CheckpointTimeout(const JobPlan& plan, const FleetOptions& options) {
  double bytes = 0;
  for (const v1::StagePlan& stage : plan.planned.plan.stages()) {
    bytes += static_cast<double>(stage.memory_bytes().snapshot());
  }
  return std::max(options.checkpoint_timeout, absl::Seconds(bytes / options.checkpoint_bytes_per_second));
}

}  // namespace stagecoach
