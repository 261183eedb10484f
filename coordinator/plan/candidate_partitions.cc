#include "coordinator/plan/candidate_partitions.h"

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/asked_partition.h"
#include "coordinator/plan/memory_shortfall.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {
namespace {

// Of a search for several stages on each worker. There are several of these, and a job waits for them.
constexpr uint64_t kMaxMovesOfCandidate = kMaxMoves / 10;

// Without recomputing anything.
bool FitsAsItIs(const PartitionProblem& problem, const StagePartition& stages) {
  const std::vector<uint64_t> needed = NeededBytes(problem, stages);
  for (size_t rank = 0; rank < needed.size(); ++rank) {
    if (needed[rank] > problem.workers[rank].memory_bytes) return false;
  }
  return true;
}

bool IsAsked(const v1::PartitionSpec& spec) {
  return spec.kind() == v1::PartitionSpec::KIND_EVEN || spec.kind() == v1::PartitionSpec::KIND_LAYERS;
}

}  // namespace

std::vector<uint64_t> NeededBytes(const PartitionProblem& problem, const StagePartition& stages) {
  const WorkerLoads loads(problem);
  const std::vector<std::vector<LayerSpan>> spans = loads.SpansOf(stages);
  std::vector<uint64_t> needed;
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    needed.push_back(loads.MemoryOf(rank, spans[rank]).needed_bytes);
  }
  return needed;
}

const absl::StatusOr<Partition>& CandidatePartitions::Fastest(const PartitionProblem& problem) {
  const std::pair<StagePlacement, uint32_t> layout(problem.placement, problem.num_chunks);
  const auto known = fastest_.find(layout);
  if (known != fastest_.end()) return known->second;
  PartitionProblem unlimited = problem;
  for (WorkerCapacity& worker : unlimited.workers) worker.memory_bytes = std::numeric_limits<uint64_t>::max();
  return fastest_.emplace(layout, BalancedPartition(unlimited, kMaxMovesOfCandidate)).first->second;
}

absl::StatusOr<Partition> CandidatePartitions::Best(const PartitionProblem& problem) {
  if (IsAsked(spec_)) return PartitionAsAsked(problem, spec_);
  STAGECOACH_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const absl::StatusOr<Partition>& fastest = Fastest(problem);
  if (!fastest.ok() || FitsAsItIs(problem, fastest->stages)) return fastest;
  absl::StatusOr<Partition> partition = BalancedPartition(problem, kMaxMovesOfCandidate);
  if (!absl::IsResourceExhausted(partition.status())) return partition;
  const MemoryShortfall shortfall = ShortfallOfStages(problem, fastest->stages);
  // What nothing but recomputation makes fit, and a search that has given up has missed.
  if (shortfall.needed_bytes == 0) return PartitionOfStages(problem, fastest->stages);
  return absl::ResourceExhaustedError(absl::StrCat("its best cut lacks ",
                                                   shortfall.needed_bytes - shortfall.memory_bytes, " bytes on worker ",
                                                   shortfall.worker_rank));
}

}  // namespace stagecoach
