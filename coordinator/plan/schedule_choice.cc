#include "coordinator/plan/schedule_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/asked_partition.h"
#include "coordinator/plan/slot_counts.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {
namespace {

// How often a schedule that looks at times is cut again. The slots only grow, so that it ends earlier as a rule.
constexpr int kMaxCuts = 8;

constexpr double kEqualSteps = 1e-9;

ScheduleProblem WithoutTimes(const CutRequest& request, uint32_t num_chunks) {
  return {.num_workers = static_cast<uint32_t>(request.workers.size()),
          .num_chunks = num_chunks,
          .num_micro_batches = request.num_micro_batches};
}

ScheduleProblem WithTimes(const CutRequest& request, uint32_t num_chunks, const PartitionProblem& problem,
                          const StagePartition& stages) {
  ScheduleProblem timed = WithoutTimes(request, num_chunks);
  timed.cost_of_stage = StageCosts(problem, stages);
  const WorkerProfile& worker = request.workers.front();
  timed.communication_seconds = worker.hop_seconds;
  for (size_t stage = 0; stage + 1 < stages.size(); ++stage) {
    const uint64_t bytes = problem.layers[stages[stage].last].boundary_bytes;
    timed.edge_seconds.push_back(static_cast<double>(bytes) / worker.hop_bytes_per_second);
  }
  return timed;
}

// True when some stage needs more than it had; it then has it.
bool RaiseTo(const std::vector<StageSlotCounts>& needed, std::vector<StageSlotCounts>& slots) {
  bool raised = false;
  const auto raise = [&raised](uint32_t value, uint32_t& slot) {
    raised |= value > slot;
    slot = std::max(slot, value);
  };
  for (size_t stage = 0; stage < slots.size(); ++stage) {
    raise(needed[stage].load, slots[stage].load);
    raise(needed[stage].saved, slots[stage].saved);
    raise(needed[stage].shared, slots[stage].shared);
    raise(needed[stage].pending, slots[stage].pending);
  }
  return raised;
}

uint64_t PeakBytes(const PartitionProblem& problem, const StagePartition& stages) {
  const WorkerLoads loads(problem);
  const std::vector<std::vector<LayerSpan>> spans = loads.SpansOf(stages);
  uint64_t peak = 0;
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    peak = std::max(peak, loads.MemoryOf(rank, spans[rank]).needed_bytes);
  }
  return peak;
}

bool IsBetter(const ScheduleCandidate& a, const ScheduleCandidate& b) {
  if (a.step_seconds < b.step_seconds * (1 - kEqualSteps)) return true;
  return a.step_seconds <= b.step_seconds * (1 + kEqualSteps) && a.peak_bytes < b.peak_bytes;
}

// Of the errors of all candidates, the one that says most.
absl::Status ErrorOf(const std::vector<ScheduleCandidate>& candidates) {
  for (const ScheduleCandidate& candidate : candidates) {
    if (absl::IsResourceExhausted(candidate.status)) return candidate.status;
  }
  return candidates.empty() ? absl::InvalidArgumentError("there is no schedule to choose from")
                            : candidates.front().status;
}

}  // namespace

absl::StatusOr<PartitionProblem> ProblemForSchedule(const CutRequest& request, const Schedule& schedule,
                                                    uint32_t num_chunks) {
  PartitionProblem problem = PartitionProblemOf(request.graph, request.seconds, request.state, request.workers);
  problem.num_chunks = num_chunks;
  problem.placement = schedule.placement();
  STAGECOACH_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, schedule.Build(WithoutTimes(request, num_chunks)));
  problem.slots = SlotCountsOf(table);
  return problem;
}

absl::StatusOr<ScheduledCut> CutForSchedule(const CutRequest& request, const Schedule& schedule, uint32_t num_chunks) {
  ScheduledCut cut;
  STAGECOACH_ASSIGN_OR_RETURN(cut.problem, ProblemForSchedule(request, schedule, num_chunks));
  for (int i = 0; i < kMaxCuts; ++i) {
    STAGECOACH_ASSIGN_OR_RETURN(cut.partition, PartitionAsAsked(cut.problem, request.partition));
    cut.schedule_problem = WithTimes(request, num_chunks, cut.problem, cut.partition.stages);
    STAGECOACH_ASSIGN_OR_RETURN(cut.table, schedule.Build(cut.schedule_problem));
    if (RaiseTo(SlotCountsOf(cut.table), cut.problem.slots)) continue;
    STAGECOACH_ASSIGN_OR_RETURN(cut.timeline, Simulate(cut.table, cut.schedule_problem));
    cut.update_seconds =
        UpdateSeconds(request.graph, request.state, cut.problem, cut.partition.stages, request.workers);
    cut.peak_bytes = PeakBytes(cut.problem, cut.partition.stages);
    return cut;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("schedule ", schedule.name(), " holds more micro-batches with every cut"));
}

absl::StatusOr<ScheduleChoice> ChooseSchedule(const CutRequest& request, const std::vector<const Schedule*>& schedules,
                                              uint32_t num_chunks) {
  ScheduleChoice choice;
  std::optional<ScheduledCut> best;
  for (const Schedule* schedule : schedules) {
    ScheduleCandidate& candidate = choice.candidates.emplace_back();
    candidate.schedule = std::string(schedule->name());
    candidate.num_chunks = num_chunks == 0 ? schedule->default_chunks() : num_chunks;
    absl::StatusOr<ScheduledCut> cut = CutForSchedule(request, *schedule, candidate.num_chunks);
    candidate.status = cut.status();
    if (!cut.ok()) continue;
    candidate.step_seconds = cut->step_seconds();
    candidate.bubble_ratio = cut->timeline.bubble_ratio_span;
    candidate.peak_bytes = cut->peak_bytes;
    if (best.has_value() && !IsBetter(candidate, choice.candidates[choice.chosen])) continue;
    choice.chosen = choice.candidates.size() - 1;
    best = *std::move(cut);
  }
  if (!best.has_value()) return ErrorOf(choice.candidates);
  choice.cut = *std::move(best);
  return choice;
}

}  // namespace stagecoach
