#include "coordinator/plan/schedule_choice.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/searched_order.h"
#include "coordinator/plan/slot_counts.h"
#include "coordinator/plan/worker_loads.h"
#include "coordinator/schedule/pruned_table.h"
#include "coordinator/schedule/recomputing_table.h"

namespace stagecoach {
namespace {

// How often a schedule that looks at times is cut again. The slots only grow, so that it ends earlier as a rule.
constexpr int kMaxCuts = 8;

// How many cuts of one schedule are lowered; each leaves more memory free than the one before.
constexpr int kMaxLowered = 8;
// A cut that needs no more than this many times the memory, as the partitioner reckons, may fit once it is lowered.
constexpr double kMostReckonedTooMuch = 1.3;

constexpr double kEqualSteps = 1e-9;

ScheduleProblem WithoutTimes(const CutRequest& request, uint32_t num_chunks) {
  return {.num_workers = static_cast<uint32_t>(request.workers.size()),
          .num_chunks = num_chunks,
          .num_micro_batches = request.num_micro_batches};
}

ScheduleProblem WithTimes(const CutRequest& request, uint32_t num_chunks, const PartitionProblem& problem,
                          const Partition& partition) {
  const StagePartition& stages = partition.stages;
  ScheduleProblem timed = WithoutTimes(request, num_chunks);
  timed.cost_of_stage = StageCosts(problem, partition);
  const WorkerProfile& worker = request.workers.front();
  timed.communication_seconds = worker.hop_seconds;
  for (size_t stage = 0; stage + 1 < stages.size(); ++stage) {
    const uint64_t bytes = problem.layers[stages[stage].last].boundary_bytes;
    timed.edge_seconds.push_back(static_cast<double>(bytes) / worker.hop_bytes_per_second);
  }
  timed.skip_edges = SkipCosts(request.graph, stages, worker.hop_bytes_per_second);
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
    raise(needed[stage].remade, slots[stage].remade);
  }
  return raised;
}

// What each worker needs, with what is recomputed. [num_workers]
std::vector<uint64_t> ReckonedBytes(const ScheduledCut& cut) {
  const WorkerLoads loads(cut.problem);
  const std::vector<std::vector<LayerSpan>> spans = loads.SpansOf(cut.partition.stages);
  std::vector<uint64_t> needed;
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    std::vector<std::vector<uint32_t>> recomputed;
    for (uint32_t chunk = 0; chunk < loads.num_chunks(); ++chunk) {
      recomputed.push_back(cut.partition.recomputed_layers[loads.StageOf(rank, chunk)]);
    }
    needed.push_back(loads.BytesWith(rank, spans[rank], recomputed));
  }
  return needed;
}

uint64_t MostReckonedBytes(const ScheduledCut& cut) {
  const std::vector<uint64_t> needed = ReckonedBytes(cut);
  return *std::max_element(needed.begin(), needed.end());
}

// From the slots of the problem on, which grow until they are enough.
absl::StatusOr<ScheduledCut> CutFromSlots(const CutRequest& request, const ScheduleOption& option,
                                          PartitionProblem problem, CandidatePartitions& partitions) {
  ScheduledCut cut;
  cut.problem = std::move(problem);
  cut.hop_bytes_per_second = request.workers.front().hop_bytes_per_second;
  for (int i = 0; i < kMaxCuts; ++i) {
    STAGECOACH_ASSIGN_OR_RETURN(cut.partition, partitions.Best(cut.problem));
    cut.schedule_problem = WithTimes(request, option.num_chunks, cut.problem, cut.partition);
    STAGECOACH_ASSIGN_OR_RETURN(
        cut.table, BuildRecomputing(*option.schedule, cut.schedule_problem, RecomputingStages(cut.partition)));
    cut.table = WithoutFrozen(cut.table, BackwardOfStages(request.graph, cut.partition.stages));
    if (RaiseTo(SlotCountsOf(cut.table), cut.problem.slots)) continue;
    STAGECOACH_ASSIGN_OR_RETURN(cut.timeline, Simulate(cut.table, cut.schedule_problem));
    cut.update_seconds =
        UpdateSeconds(request.graph, request.state, cut.problem, cut.partition.stages, request.workers);
    cut.peak_bytes = MostReckonedBytes(cut);
    return cut;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("schedule ", option.schedule->name(), " holds more micro-batches with every cut"));
}

// What the schedule's stages hold when memory is no matter, which is less than it would without frozen layers.
absl::StatusOr<std::vector<StageSlotCounts>> SlotsWithoutFrozen(const CutRequest& request, const ScheduleOption& option,
                                                                PartitionProblem problem,
                                                                CandidatePartitions& partitions) {
  for (WorkerCapacity& worker : problem.workers) worker.memory_bytes = std::numeric_limits<uint64_t>::max();
  STAGECOACH_ASSIGN_OR_RETURN(const Partition partition, partitions.Best(problem));
  STAGECOACH_ASSIGN_OR_RETURN(
      const v1::ComputeTable table,
      BuildRecomputing(*option.schedule, WithTimes(request, option.num_chunks, problem, partition),
                       RecomputingStages(partition)));
  return SlotCountsOf(WithoutFrozen(table, BackwardOfStages(request.graph, partition.stages)));
}

absl::StatusOr<ScheduledCut> Cut(const CutRequest& request, const ScheduleOption& option,
                                 CandidatePartitions& partitions) {
  STAGECOACH_ASSIGN_OR_RETURN(PartitionProblem problem, ProblemForSchedule(request, option));
  const auto& layers = request.graph.layers();
  if (std::any_of(layers.begin(), layers.end(), [](const v1::LayerSpec& layer) { return layer.frozen(); })) {
    PartitionProblem pruned = problem;
    STAGECOACH_ASSIGN_OR_RETURN(pruned.slots, SlotsWithoutFrozen(request, option, problem, partitions));
    absl::StatusOr<ScheduledCut> cut = CutFromSlots(request, option, std::move(pruned), partitions);
    if (cut.ok()) return cut;
  }
  return CutFromSlots(request, option, std::move(problem), partitions);
}

// The same stages in an order that is searched for their times. The search leaves skip edges out and Simulate does not:
// what it finds shorter may be longer, and whoever chooses compares.
absl::StatusOr<ScheduledCut> WithSearchedOrder(const CutRequest& request, const ScheduleOption& option,
                                               const ScheduledCut& cut) {
  ScheduledCut searched = cut;
  // A search knows of whole stages alone.
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable whole, BuildRecomputing(*option.schedule, cut.schedule_problem,
                                                                             RecomputingStages(cut.partition)));
  STAGECOACH_ASSIGN_OR_RETURN(searched.table, SearchedOrder(cut.schedule_problem, whole, cut.problem.placement));
  searched.table = WithoutFrozen(searched.table, BackwardOfStages(request.graph, cut.partition.stages));
  searched.is_searched = true;
  searched.problem.slots = SlotCountsOf(searched.table);
  STAGECOACH_ASSIGN_OR_RETURN(searched.timeline, Simulate(searched.table, searched.schedule_problem));
  searched.peak_bytes = MostReckonedBytes(searched);
  return searched;
}

// One option on the way to a choice.
struct Tried {
  ScheduleOption option;
  std::vector<WorkerProfile> workers;  // with the memory that the partitioner may reckon with
  absl::StatusOr<ScheduledCut> cut;
  int num_lowered = 0;
  absl::Status lacking = absl::OkStatus();  // what the first cut that was lowered lacked
  bool gains_too_little = false;            // it is shorter than the best, which is chosen all the same

  bool fits() const { return cut.ok(); }
};

bool IsSimpler(const Tried& a, const Tried& b) {
  if (a.cut->peak_bytes != b.cut->peak_bytes) return a.cut->peak_bytes < b.cut->peak_bytes;
  return a.option.num_chunks < b.option.num_chunks;
}

// Those that do not fit stay in their order.
bool IsShorter(const Tried& a, const Tried& b) {
  if (!a.fits() || !b.fits()) return a.fits() && !b.fits();
  return a.cut->step_seconds() < b.cut->step_seconds();
}

class Chooser {
 public:
  Chooser(const CutRequest& request, const std::vector<ScheduleOption>& options, const LoweredBytes& lowered_bytes)
      : request_(request), lowered_bytes_(lowered_bytes), partitions_(request.partition) {
    for (const ScheduleOption& option : options) {
      std::vector<WorkerProfile> workers = request.workers;
      if (lowered_bytes != nullptr && option.num_chunks > 1) {
        for (WorkerProfile& worker : workers) worker.memory_bytes = 0;
      }
      tried_.push_back({option, std::move(workers), absl::UnknownError("not cut yet")});
      CutWithin(tried_.back());
      if (lowered_bytes != nullptr && absl::IsResourceExhausted(tried_.back().cut.status())) Doubt(tried_.back());
    }
  }

  absl::StatusOr<ScheduleChoice> Choose() {
    while (!tried_.empty()) {
      MoveBestToFront();
      Tried& best = tried_.front();
      if (!best.fits()) break;
      if (lowered_bytes_ != nullptr) {
        STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint64_t> needed, lowered_bytes_(*best.cut));
        if (!CheckMemory(needed).ok()) {
          CutAgain(needed, best);
          continue;
        }
      }
      CutOthersWithinMemory();
      STAGECOACH_RETURN_IF_ERROR(TrySearchedOrder());
      return Choice();
    }
    return Error();
  }

 private:
  // The others stay in their order.
  void MoveBestToFront() {
    const auto shortest = std::min_element(tried_.begin(), tried_.end(), IsShorter);
    if (!shortest->fits()) return;
    const double most = shortest->cut->step_seconds() * (1 + kEqualSteps);
    auto best = tried_.end();
    for (auto other = tried_.begin(); other < tried_.end(); ++other) {
      if (!other->fits() || other->cut->step_seconds() > most) continue;
      if (best == tried_.end() || IsSimpler(*other, *best)) best = other;
    }
    std::rotate(tried_.begin(), best, best + 1);
  }

  uint64_t LackingBytes(size_t rank, uint64_t needed) const {
    const uint64_t memory = request_.workers[rank].memory_bytes;
    return memory == 0 ? 0 : needed - std::min(needed, memory);
  }
  // On the worker that lacks most. OK: none does.
  absl::Status CheckMemory(const std::vector<uint64_t>& needed, absl::string_view what = "its best cut") const {
    size_t worst = 0;
    for (size_t rank = 0; rank < needed.size(); ++rank) {
      if (LackingBytes(rank, needed[rank]) > LackingBytes(worst, needed[worst])) worst = rank;
    }
    const uint64_t lacking = LackingBytes(worst, needed[worst]);
    if (lacking == 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(what, " lacks ", lacking, " bytes on worker ", worst));
  }

  // What the partitioner finds a little too large is cut as if it fitted: lowering says whether it does.
  void Doubt(Tried& tried) {
    tried.lacking = tried.cut.status();
    for (WorkerProfile& worker : tried.workers) {
      worker.memory_bytes = static_cast<uint64_t>(static_cast<double>(worker.memory_bytes) * kMostReckonedTooMuch);
    }
    CutWithin(tried);
    if (!tried.fits()) tried.cut = tried.lacking;
  }

  // For what was lowered and lacks memory.
  void CutAgain(const std::vector<uint64_t>& needed, Tried& tried) {
    if (tried.lacking.ok()) tried.lacking = CheckMemory(needed);
    AllowForError(needed, tried);
    if (++tried.num_lowered < kMaxLowered) CutWithin(tried);
    if (tried.num_lowered == kMaxLowered || absl::IsResourceExhausted(tried.cut.status())) tried.cut = tried.lacking;
  }

  // What the partitioner reckoned with and what is needed differ; the next cut is taken to differ by as much. Limits
  // only sink, so that a cut which lacked memory does not come back.
  void AllowForError(const std::vector<uint64_t>& needed, Tried& tried) const {
    const std::vector<uint64_t> reckoned = ReckonedBytes(*tried.cut);
    for (size_t rank = 0; rank < needed.size(); ++rank) {
      const uint64_t memory = request_.workers[rank].memory_bytes;
      if (memory == 0) continue;
      uint64_t& limit = tried.workers[rank].memory_bytes;
      const uint64_t before = reckoned[rank];
      const uint64_t next = before >= needed[rank] ? memory + std::min(before - needed[rank], UINT64_MAX - memory)
                                                   : memory - std::min(needed[rank] - before, memory - 1);
      limit = limit == 0 ? next : std::min(limit, next);
    }
  }

  void CutWithin(Tried& tried) {
    CutRequest within = request_;
    within.workers = tried.workers;
    tried.cut = Cut(within, tried.option, partitions_);
  }

  // Those that were not lowered are shown as the partitioner sees them; those that were, and are longer than the best
  // now that they have been cut again, with what stood in their way.
  void CutOthersWithinMemory() {
    for (auto other = tried_.begin() + 1; other < tried_.end(); ++other) {
      if (!other->lacking.ok()) other->cut = other->lacking;
      if (!other->fits()) continue;
      if (CheckMemory(ReckonedBytes(*other->cut)).ok()) continue;
      other->workers = request_.workers;
      CutWithin(*other);
    }
  }

  // The best has been lowered last, and fits. It stays first unless the order is better.
  absl::Status TrySearchedOrder() {
    const ScheduledCut& best = *tried_.front().cut;
    if (lowered_bytes_ == nullptr || !request_.searches_order || !IsSearchable(best.schedule_problem)) {
      return absl::OkStatus();
    }
    STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule("auto"));
    Tried searched{.option = {schedule, best.schedule_problem.num_chunks},
                   .workers = request_.workers,
                   .cut = WithSearchedOrder(request_, tried_.front().option, best)};
    if (!searched.cut.ok()) {
      // The best is as good as it was.
    } else if (searched.cut->step_seconds() >= best.step_seconds() * (1 - kLeastGainOfOrder)) {
      if (searched.cut->step_seconds() < best.step_seconds()) searched.gains_too_little = true;
    } else {
      STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint64_t> needed, lowered_bytes_(*searched.cut));
      const absl::Status fits = CheckMemory(needed, "its order");
      if (fits.ok()) {
        tried_.insert(tried_.begin(), std::move(searched));
        return absl::OkStatus();
      }
      searched.cut = fits;
      STAGECOACH_RETURN_IF_ERROR(lowered_bytes_(best).status());
    }
    tried_.push_back(std::move(searched));
    return absl::OkStatus();
  }

  ScheduleChoice Choice() {
    std::stable_sort(tried_.begin() + 1, tried_.end(), IsShorter);
    ScheduleChoice choice;
    for (const Tried& tried : tried_) {
      ScheduleCandidate& candidate = choice.candidates.emplace_back();
      candidate.schedule = std::string(tried.option.schedule->name());
      candidate.num_chunks = tried.option.num_chunks;
      candidate.status = tried.cut.status();
      if (!tried.fits()) continue;
      candidate.step_seconds = tried.cut->step_seconds();
      candidate.bubble_ratio = tried.cut->timeline.bubble_ratio_span;
      candidate.peak_bytes = tried.cut->peak_bytes;
      candidate.gains_too_little = tried.gains_too_little;
    }
    choice.cut = *std::move(tried_.front().cut);
    return choice;
  }

  // Of the errors of all, the one that says most.
  absl::Status Error() const {
    for (const Tried& tried : tried_) {
      if (absl::IsResourceExhausted(tried.cut.status())) return tried.cut.status();
    }
    return tried_.empty() ? absl::InvalidArgumentError("there is no schedule to choose from")
                          : tried_.front().cut.status();
  }

  const CutRequest& request_;
  const LoweredBytes& lowered_bytes_;
  CandidatePartitions partitions_;
  std::vector<Tried> tried_;
};

}  // namespace

std::vector<bool> RecomputingStages(const Partition& partition) {
  std::vector<bool> recomputes;
  for (const std::vector<uint32_t>& layers : partition.recomputed_layers) recomputes.push_back(!layers.empty());
  return recomputes;
}

absl::StatusOr<PartitionProblem> ProblemForSchedule(const CutRequest& request, const ScheduleOption& option) {
  PartitionProblem problem =
      PartitionProblemOf(request.graph, request.seconds, request.recomputation, request.state, request.workers);
  problem.num_chunks = option.num_chunks;
  problem.placement = option.schedule->placement();
  STAGECOACH_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table,
                              option.schedule->Build(WithoutTimes(request, option.num_chunks)));
  problem.slots = SlotCountsOf(table);
  problem.num_micro_batches = request.num_micro_batches;
  return problem;
}

absl::StatusOr<ScheduledCut> CutForSchedule(const CutRequest& request, const ScheduleOption& option) {
  CandidatePartitions partitions(request.partition);
  return Cut(request, option, partitions);
}

absl::StatusOr<ScheduleChoice> ChooseSchedule(const CutRequest& request, const std::vector<ScheduleOption>& options,
                                              const LoweredBytes& lowered_bytes) {
  return Chooser(request, options, lowered_bytes).Choose();
}

bool SomeScheduleFits(const CutRequest& request, const std::vector<ScheduleOption>& options) {
  CandidatePartitions partitions(request.partition);
  return std::any_of(options.begin(), options.end(),
                     [&](const ScheduleOption& option) { return Cut(request, option, partitions).ok(); });
}

}  // namespace stagecoach
