#include "coordinator/hung_member.h"

#include <vector>

#include "coordinator/fleet/hang_verdict.h"
#include "coordinator/fleet/worker_record.h"
#include "coordinator/jobs/failure_cause.h"

namespace stagecoach {
namespace {

MemberActivity ActivityOf(const WorkerRecord& worker, const JobRecord& job, uint32_t rank) {
  const JobProgress& progress = job.progress;
  const bool evaluates = progress.phase == Phase::kEvaluating;
  const MemberProgress& said = progress.said[rank];
  const bool answered = evaluates ? said.evaluated : said.vote != nullptr;
  const PlannedJob& planned = progress.plan->planned;
  return {.run = RunIn(worker, job.id, job.history.epoch),
          .unmoved_since = worker.unmoved_since,
          .heard_at = worker.last_seen,
          .answered_at = answered ? std::optional(said.answered_at) : std::nullopt,
          .program = evaluates ? &planned.evaluation_programs[rank] : &planned.programs[rank]};
}

}  // namespace

std::optional<HungMember> FindHungMember(absl::Duration now, const State& state, const JobRecord& job) {
  const JobProgress& progress = job.progress;
  if (progress.phase != Phase::kTraining && progress.phase != Phase::kEvaluating) return std::nullopt;
  // Workers of this process cannot be lost, and one that is slow because the host is busy is to be waited for.
  if (state.options().lease == absl::InfiniteDuration()) return std::nullopt;
  HangInput input;
  input.ordered_at = progress.run_ordered;
  input.step_seconds = progress.plan->planned.plan.step_seconds();
  input.silent_after = SilentAfter(state.options().heartbeat_interval);
  input.now = now;
  for (uint32_t rank = 0; rank < progress.members->size(); ++rank) {
    const auto worker = state.workers().find(progress.members->at(rank).worker);
    // The fate of a broken session is decided by its grace.
    if (worker == state.workers().end() || !worker->second.session.has_value()) return std::nullopt;
    input.members.push_back(ActivityOf(worker->second, job, rank));
  }
  const std::vector<HangBlame> blames = FindHang(input);
  if (blames.empty()) return std::nullopt;
  const WorkerRank rank = blames.front().rank;
  return HungMember{rank, progress.members->at(rank.value()).worker, CauseOfHang(job, blames.front())};
}

}  // namespace stagecoach
