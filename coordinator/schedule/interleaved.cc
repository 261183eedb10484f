#include "coordinator/schedule/interleaved.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/status_macros.h"
#include "coordinator/schedule/compute_table.h"

namespace stagecoach {
namespace {

struct Pass {
  uint32_t chunk;
  uint32_t micro_batch;
};

// Larger groups first: a smaller one before a larger one would leave the warm-up too short for the larger, and the rows
// would wait for each other.
std::vector<uint32_t> GroupSizes(uint32_t num_workers, uint32_t num_micro_batches) {
  const uint32_t num_groups = std::max(1u, num_micro_batches / num_workers);
  std::vector<uint32_t> sizes(num_groups, num_micro_batches / num_groups);
  for (uint32_t i = 0; i < num_micro_batches % num_groups; ++i) ++sizes[i];
  return sizes;
}

// The passes of a worker in one direction, the same for every worker.
std::vector<Pass> Passes(const std::vector<uint32_t>& group_sizes, uint32_t num_chunks, bool forward) {
  std::vector<Pass> passes;
  uint32_t first = 0;
  for (const uint32_t size : group_sizes) {
    for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) {
      for (uint32_t i = 0; i < size; ++i) passes.push_back({forward ? chunk : num_chunks - 1 - chunk, first + i});
    }
    first += size;
  }
  return passes;
}

// Forwards before the first backward of a worker: the first micro-batch has to come back through the stages below it.
size_t NumWarmupPasses(const ScheduleProblem& problem, uint32_t worker, uint32_t group_size) {
  const size_t num_workers_below = problem.num_workers - 1 - worker;
  if (problem.num_chunks == 1) return num_workers_below;
  return 2 * num_workers_below + size_t{problem.num_chunks - 1} * group_size;
}

}  // namespace

absl::StatusOr<v1::ComputeTable> InterleavedSchedule::Build(const ScheduleProblem& problem) const {
  STAGECOACH_RETURN_IF_ERROR(CheckProblem(problem, *this));
  v1::ComputeTable table = EmptyTable(problem, name());
  const uint32_t p = problem.num_workers;
  const std::vector<uint32_t> group_sizes = GroupSizes(p, problem.num_micro_batches);
  const std::vector<Pass> forwards = Passes(group_sizes, problem.num_chunks, /*forward=*/true);
  const std::vector<Pass> backwards = Passes(group_sizes, problem.num_chunks, /*forward=*/false);
  for (uint32_t worker = 0; worker < p; ++worker) {
    v1::WorkerActions& row = *table.mutable_workers(static_cast<int>(worker));
    const auto append = [&](v1::ActionKind kind, const Pass& pass) {
      Append(row, kind, pass.chunk * p + worker, pass.micro_batch);
    };
    const size_t num_warmup_passes = std::min(forwards.size(), NumWarmupPasses(problem, worker, group_sizes.front()));
    // warm-up: F(0) .. F(k-1), passes counted over all chunks
    for (size_t i = 0; i < num_warmup_passes; ++i) append(v1::ACTION_KIND_FORWARD, forwards[i]);
    // steady: F(k) B(0), F(k+1) B(1), ...; cool-down: the last k backwards
    for (size_t i = 0; i < backwards.size(); ++i) {
      const size_t next_forward = num_warmup_passes + i;
      if (next_forward < forwards.size()) append(v1::ACTION_KIND_FORWARD, forwards[next_forward]);
      append(v1::ACTION_KIND_BACKWARD, backwards[i]);
    }
  }
  return table;
}

}  // namespace stagecoach
