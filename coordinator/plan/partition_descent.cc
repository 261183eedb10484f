#include "coordinator/plan/partition_descent.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "common/check.h"
#include "coordinator/plan/partition_search.h"

namespace stagecoach {
namespace {

// Passes over all moves: each that is not the last improves, and most improve a lot.
constexpr int kMaxPasses = 1000;

// The problem in which each stage has a worker of its own.
PartitionProblem WithAWorkerForEachStage(const PartitionProblem& problem, bool has_memory_limits) {
  PartitionProblem apart = problem;
  apart.num_chunks = 1;
  apart.placement = StagePlacement::kLoop;
  apart.workers.clear();
  for (uint32_t stage = 0; stage < problem.num_stages(); ++stage) {
    const auto num_workers = static_cast<uint32_t>(problem.workers.size());
    WorkerCapacity worker = problem.workers[WorkerOfStage(problem.placement, num_workers, stage)];
    worker.memory_bytes =
        has_memory_limits ? worker.memory_bytes / problem.num_chunks : std::numeric_limits<uint64_t>::max();
    apart.workers.push_back(worker);
  }
  return apart;
}

// Where each stage ends.
std::vector<uint32_t> Start(const PartitionProblem& problem) {
  for (const bool has_memory_limits : {true, false}) {
    const PartitionProblem apart = WithAWorkerForEachStage(problem, has_memory_limits);
    const WorkerLoads loads(apart);
    PartitionSearch search(loads, std::numeric_limits<uint64_t>::max());
    if (search.Find() != PartitionSearch::Outcome::kFound) continue;
    std::vector<uint32_t> ends;
    for (const std::vector<LayerSpan>& spans : search.spans()) ends.push_back(spans[0].end);
    return ends;
  }
  STAGECOACH_CHECK(false && "without limits there is one");
  return {};
}

class Descent {
 public:
  Descent(const WorkerLoads& loads, std::vector<uint32_t> ends)
      : loads_(loads), ends_(std::move(ends)), quality_(QualityOf(ends_)) {}

  std::vector<std::vector<LayerSpan>> Run() {
    for (int pass = 0; pass < kMaxPasses && Improve(); ++pass) {
    }
    return SpansOf(ends_);
  }

 private:
  // Bytes that are lacking, slowest worker, slowest stage, bytes behind cuts.
  using Quality = std::tuple<uint64_t, double, double, uint64_t>;

  // Tries to move each run of cuts by one layer; true when one of them was worth it.
  bool Improve() {
    bool improved = false;
    for (size_t first = 0; first + 1 < ends_.size(); ++first) {
      for (size_t last = first; last + 1 < ends_.size(); ++last) {
        for (const int by : {-1, 1}) improved |= TryMove(first, last, by);
      }
    }
    return improved;
  }

  bool TryMove(size_t first, size_t last, int by) {
    std::vector<uint32_t> moved = ends_;
    for (size_t cut = first; cut <= last; ++cut)
      moved[cut] = static_cast<uint32_t>(static_cast<int64_t>(moved[cut]) + by);
    if (!HasBlocks(moved)) return false;
    const Quality quality = QualityOf(moved);
    if (quality >= quality_) return false;
    ends_ = std::move(moved);
    quality_ = quality;
    return true;
  }

  bool HasBlocks(const std::vector<uint32_t>& ends) const {
    for (size_t stage = 0; stage < ends.size(); ++stage) {
      const LayerSpan span{stage == 0 ? 0 : ends[stage - 1], ends[stage]};
      if (span.first >= span.end || loads_.NumBlocks(span) == 0) return false;
    }
    return true;
  }

  std::vector<std::vector<LayerSpan>> SpansOf(const std::vector<uint32_t>& ends) const {
    std::vector<std::vector<LayerSpan>> spans(loads_.num_workers());
    for (uint32_t rank = 0; rank < loads_.num_workers(); ++rank) {
      for (uint32_t chunk = 0; chunk < loads_.num_chunks(); ++chunk) {
        const uint32_t stage = loads_.StageOf(rank, chunk);
        spans[rank].push_back({stage == 0 ? 0 : ends[stage - 1], ends[stage]});
      }
    }
    return spans;
  }

  Quality QualityOf(const std::vector<uint32_t>& ends) const {
    Quality quality{0, 0, 0, 0};
    auto& [lacking, slowest_worker, slowest_stage, cut_bytes] = quality;
    const std::vector<std::vector<LayerSpan>> spans = SpansOf(ends);
    for (uint32_t rank = 0; rank < spans.size(); ++rank) {
      uint64_t ticks = 0;
      for (uint32_t chunk = 0; chunk < spans[rank].size(); ++chunk) {
        const uint64_t of_stage = loads_.Ticks(spans[rank][chunk]);
        ticks += of_stage;
        slowest_stage = std::max(slowest_stage, loads_.Seconds(rank, of_stage));
        cut_bytes += loads_.CutBytes(loads_.StageOf(rank, chunk), spans[rank][chunk].end);
      }
      lacking += loads_.LackingBytes(rank, spans[rank]);
      const uint64_t with_recomputation = loads_.TicksOf(rank, spans[rank]).value_or(ticks);
      slowest_worker = std::max(slowest_worker, loads_.Seconds(rank, with_recomputation));
    }
    return quality;
  }

  const WorkerLoads& loads_;
  std::vector<uint32_t> ends_;
  Quality quality_;
};

}  // namespace

std::vector<std::vector<LayerSpan>> DescendToPartition(const PartitionProblem& problem, const WorkerLoads& loads) {
  return Descent(loads, Start(problem)).Run();
}

}  // namespace stagecoach
