#include "coordinator/plan/partition.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "coordinator/plan/partition_descent.h"
#include "coordinator/plan/partition_search.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {
namespace {

using Spans = std::vector<std::vector<LayerSpan>>;  // [num_workers][num_chunks]

// By stage instead of worker and chunk. The workers have the memory.
Partition Describe(const WorkerLoads& loads, const Spans& spans) {
  Partition partition;
  partition.stages.resize(size_t{loads.num_workers()} * loads.num_chunks());
  partition.recomputed_layers.resize(partition.stages.size());
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    std::vector<std::vector<uint32_t>> recomputed = loads.RecomputedLayers(rank, spans[rank]);
    for (uint32_t chunk = 0; chunk < loads.num_chunks(); ++chunk) {
      const uint32_t stage = loads.StageOf(rank, chunk);
      partition.stages[stage] = {spans[rank][chunk].first, spans[rank][chunk].end - 1};
      partition.recomputed_layers[stage] = std::move(recomputed[chunk]);
    }
    const double seconds = loads.Seconds(rank, *loads.TicksOf(rank, spans[rank]));
    partition.bottleneck_seconds = std::max(partition.bottleneck_seconds, seconds);
  }
  return partition;
}

bool Fits(const WorkerLoads& loads, const Spans& spans) {
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    if (loads.LackingBytes(rank, spans[rank]) > 0) return false;
  }
  return true;
}

absl::Status Unfit() {
  return absl::ResourceExhaustedError("no partition of the layers fits the memory of the workers");
}

struct SearchResult {
  std::optional<Spans> spans;  // nothing: none was found that fits
  bool is_optimal = false;
  double lower_bound_seconds = 0;
};

SearchResult Search(const PartitionProblem& problem, const WorkerLoads& loads, uint64_t max_moves) {
  SearchResult result{.spans = {}, .is_optimal = false, .lower_bound_seconds = loads.LeastSeconds()};
  if (problem.num_chunks <= kMaxSearchedChunks) {
    PartitionSearch search(loads, problem.num_chunks == 1 ? std::numeric_limits<uint64_t>::max() : max_moves);
    const PartitionSearch::Outcome outcome = search.Find();
    result.lower_bound_seconds = search.lower_bound_seconds();
    result.is_optimal = outcome != PartitionSearch::Outcome::kTooMuchWork;
    if (outcome == PartitionSearch::Outcome::kFound) result.spans = search.spans();
  }
  if (result.is_optimal) return result;
  Spans spans = DescendToPartition(problem, loads);
  if (Fits(loads, spans)) result.spans = std::move(spans);
  return result;
}

}  // namespace

absl::StatusOr<Partition> BalancedPartition(const PartitionProblem& problem, uint64_t max_moves) {
  STAGECOACH_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const WorkerLoads loads(problem);
  const SearchResult found = Search(problem, loads, max_moves);
  if (!found.spans.has_value()) return Unfit();
  Partition partition = Describe(loads, *found.spans);
  partition.is_optimal = found.is_optimal;
  // A bound that was made from sums may be above by a rounding error.
  partition.lower_bound_seconds = std::min(found.lower_bound_seconds, partition.bottleneck_seconds);
  return partition;
}

absl::StatusOr<Partition> PartitionOfStages(const PartitionProblem& problem, const StagePartition& stages) {
  const WorkerLoads loads(problem);
  const Spans spans = loads.SpansOf(stages);
  if (!Fits(loads, spans)) return Unfit();
  Partition partition = Describe(loads, spans);
  partition.lower_bound_seconds = partition.bottleneck_seconds;
  return partition;
}

}  // namespace stagecoach
