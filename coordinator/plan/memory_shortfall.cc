#include "coordinator/plan/memory_shortfall.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "coordinator/plan/partition.h"
#include "coordinator/plan/worker_loads.h"

namespace stagecoach {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kFirstStep = uint64_t{1} << 10;
constexpr uint64_t kAccuracy = 1024;

std::optional<StagePartition> FitWith(const PartitionProblem& problem, uint64_t more_bytes) {
  PartitionProblem larger = problem;
  for (WorkerCapacity& worker : larger.workers) {
    worker.memory_bytes += std::min(more_bytes, kUnlimited - worker.memory_bytes);
  }
  absl::StatusOr<Partition> partition = BalancedPartition(larger);
  if (!partition.ok()) return std::nullopt;
  return std::move(partition->stages);
}

std::string StagesOfWorker(const PartitionProblem& problem, const MemoryShortfall& shortfall) {
  const WorkerLoads loads(problem);
  std::string text;
  for (uint32_t chunk = 0; chunk < problem.num_chunks; ++chunk) {
    const uint32_t stage = loads.StageOf(shortfall.worker_rank, chunk);
    const LayerRange layers = shortfall.stages[stage];
    absl::StrAppend(&text, chunk == 0 ? "stage " : " and stage ", stage, " (layers ", layers.first, " to ", layers.last,
                    ")");
  }
  return text;
}

}  // namespace

MemoryShortfall LeastShortfall(const PartitionProblem& problem) {
  uint64_t too_little = 0;
  uint64_t enough = kFirstStep;
  std::optional<StagePartition> stages = FitWith(problem, enough);
  while (!stages.has_value()) {
    STAGECOACH_CHECK(enough < kUnlimited);
    too_little = enough;
    enough = enough > kUnlimited / 2 ? kUnlimited : enough * 2;
    stages = FitWith(problem, enough);
  }
  while (enough - too_little > std::max(enough / kAccuracy, uint64_t{1})) {
    const uint64_t middle = too_little + (enough - too_little) / 2;
    std::optional<StagePartition> fit = FitWith(problem, middle);
    (fit.has_value() ? enough : too_little) = middle;
    if (fit.has_value()) stages = std::move(fit);
  }

  return ShortfallOfStages(problem, *stages);
}

MemoryShortfall ShortfallOfStages(const PartitionProblem& problem, const StagePartition& stages) {
  MemoryShortfall shortfall{.stages = stages};
  const WorkerLoads loads(problem);
  const std::vector<std::vector<LayerSpan>> spans = loads.SpansOf(stages);
  uint64_t most_lacking = 0;
  for (uint32_t rank = 0; rank < loads.num_workers(); ++rank) {
    const uint64_t lacking = loads.LackingBytes(rank, spans[rank]);
    if (lacking <= most_lacking) continue;
    most_lacking = lacking;
    shortfall.worker_rank = rank;
    shortfall.memory_bytes = loads.MemoryLimit(rank);
    shortfall.needed_bytes = shortfall.memory_bytes + lacking;
  }
  return shortfall;
}

absl::Status ShortfallError(const PartitionProblem& problem, const MemoryShortfall& shortfall) {
  return absl::ResourceExhaustedError(absl::StrCat(StagesOfWorker(problem, shortfall), " needs ",
                                                   shortfall.needed_bytes, " bytes and worker ", shortfall.worker_rank,
                                                   " has ", shortfall.memory_bytes, ": ",
                                                   shortfall.needed_bytes - shortfall.memory_bytes, " are lacking"));
}

}  // namespace stagecoach
