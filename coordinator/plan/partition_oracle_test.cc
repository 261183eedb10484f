// BalancedPartition against all partitions of small problems, evaluated from the definition.

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "coordinator/plan/partition.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Slowest worker, slowest stage, bytes behind cuts, starts of later chunks (loops) and lengths of stages by worker.
using Quality = std::tuple<double, double, uint64_t, std::vector<uint32_t>>;

struct StageLoad {
  double seconds = 0;
  uint64_t bytes = 0;
  uint64_t scratch = 0;
  bool holds_block = false;
};

// What the skips that start or end in a stage need.
void AddSkips(const PartitionProblem& problem, size_t stage, LayerRange range, StageLoad& load) {
  const uint64_t num_micro_batches = problem.num_micro_batches;
  for (const SkipLoad& skip : problem.skips) {
    const bool starts = range.first <= skip.from_layer && skip.from_layer <= range.last;
    const bool ends = range.first <= skip.to_layer && skip.to_layer <= range.last;
    if (starts && ends) load.scratch += skip.bytes;
    if (starts == ends) continue;
    const uint64_t length = skip.to_layer - skip.from_layer;
    const uint64_t spare = skip.has_gradient ? 2 : 4;
    const uint64_t num_behind = problem.num_stages() - 1 - stage;
    const uint64_t activations = starts ? 2 : std::min(num_micro_batches, std::min<uint64_t>(stage, length) + spare);
    const uint64_t gradients = ends ? 2 : std::min(num_micro_batches, std::min(num_behind, length) + 2);
    load.bytes += skip.bytes * (activations + (skip.has_gradient ? gradients : 0));
  }
}

// When the layers of `recomputed`, a bit for each, are recomputed.
StageLoad LoadOf(const PartitionProblem& problem, size_t stage, LayerRange range, uint32_t recomputed) {
  const StageSlotCounts slots = problem.slots[stage];
  StageLoad load;
  load.bytes = slots.load * problem.load_bytes;
  for (uint32_t i = range.first; i <= range.last; ++i) {
    const LayerLoad& layer = problem.layers[i];
    const bool again = (recomputed >> i & 1u) != 0 || layer.is_always_recomputed;
    const uint32_t remade = std::max(slots.pending, slots.remade);
    load.seconds += layer.forward_seconds + layer.backward_input_seconds + layer.backward_weight_seconds;
    if (again) load.seconds += layer.recompute_seconds;
    load.bytes += layer.state_bytes + slots.shared * layer.input_bytes + slots.pending * layer.pending_bytes;
    load.bytes += (again ? std::min(slots.saved, 1u) : slots.saved) * layer.saved_bytes;
    load.bytes += (again ? std::min(slots.shared, remade) : slots.shared) * layer.shared_bytes;
    load.scratch = std::max(load.scratch, layer.scratch_bytes);
    load.holds_block |= layer.is_block;
  }
  if (range.first > 0) load.bytes += slots.transfers_before * problem.layers[range.first - 1].boundary_bytes;
  if (range.last + 1 < problem.layers.size()) {
    load.bytes += slots.transfers_behind * problem.layers[range.last].boundary_bytes;
  }
  const auto holds = [&range](uint32_t layer) { return range.first <= layer && layer <= range.last; };
  const bool owner = problem.tie.has_value() && holds(problem.tie->owner_layer);
  const bool later = problem.tie.has_value() && holds(problem.tie->later_layer);
  if (owner && later) load.bytes -= problem.tie->together_bytes;
  if (owner != later) load.bytes += problem.tie->apart_bytes;
  AddSkips(problem, stage, range, load);
  return load;
}

uint32_t RankOf(const PartitionProblem& problem, size_t stage) {
  return WorkerOfStage(problem.placement, static_cast<uint32_t>(problem.workers.size()), static_cast<uint32_t>(stage));
}

// Seconds of a worker, over all sets of layers that it may recompute; infinite when it cannot do it.
double WorkerSeconds(const PartitionProblem& problem, const StagePartition& partition, uint32_t rank) {
  uint32_t can_recompute = 0;
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    if (RankOf(problem, stage) != rank) continue;
    for (uint32_t i = partition[stage].first; i <= partition[stage].last; ++i) {
      if (problem.layers[i].recompute_seconds < std::numeric_limits<double>::infinity()) can_recompute |= 1u << i;
    }
  }
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t set = can_recompute;; set = (set - 1) & can_recompute) {
    StageLoad worker;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      if (RankOf(problem, stage) != rank) continue;
      const StageLoad load = LoadOf(problem, stage, partition[stage], set);
      worker.seconds += load.seconds;
      worker.bytes += load.bytes;
      worker.scratch = std::max(worker.scratch, load.scratch);
    }
    const bool fits = worker.bytes + worker.scratch <= problem.workers[rank].memory_bytes;
    if (fits) least = std::min(least, worker.seconds / problem.workers[rank].speed);
    if (set == 0) return least;
  }
}

std::optional<Quality> QualityOf(const PartitionProblem& problem, const StagePartition& partition) {
  Quality quality{0, 0, 0, {}};
  auto& [slowest_worker, slowest_stage, cut_bytes, order] = quality;
  const auto num_workers = static_cast<uint32_t>(problem.workers.size());
  for (uint32_t chunk = 1; problem.placement == StagePlacement::kLoop && chunk < problem.num_chunks; ++chunk) {
    order.push_back(partition[size_t{chunk} * num_workers].first);
  }
  for (uint32_t rank = 0; rank < num_workers; ++rank) {
    slowest_worker = std::max(slowest_worker, WorkerSeconds(problem, partition, rank));
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      if (RankOf(problem, stage) == rank) order.push_back(partition[stage].last - partition[stage].first);
    }
  }
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    const StageLoad load = LoadOf(problem, stage, partition[stage], 0);
    if (!load.holds_block) return std::nullopt;
    const uint32_t rank = RankOf(problem, stage);
    slowest_stage = std::max(slowest_stage, load.seconds / problem.workers[rank].speed);
    if (stage + 1 < partition.size() && RankOf(problem, stage + 1) != rank) {
      cut_bytes += problem.layers[partition[stage].last].boundary_bytes;
    }
  }
  if (slowest_worker == std::numeric_limits<double>::infinity()) return std::nullopt;
  return quality;
}

// Over all ways to put num_stages - 1 cuts between layers.
std::optional<Quality> BestQuality(const PartitionProblem& problem) {
  const size_t n = problem.layers.size();
  std::optional<Quality> best;
  for (uint32_t cuts = 0; cuts < (1u << (n - 1)); ++cuts) {
    if (static_cast<size_t>(__builtin_popcount(cuts)) + 1 != problem.num_stages()) continue;
    StagePartition partition;
    uint32_t first = 0;
    for (uint32_t layer = 0; layer < n; ++layer) {
      if (layer + 1 < n && (cuts >> layer & 1u) == 0) continue;
      partition.push_back({first, layer});
      first = layer + 1;
    }
    const std::optional<Quality> quality = QualityOf(problem, partition);
    if (quality.has_value() && (!best.has_value() || *quality < *best)) best = quality;
  }
  return best;
}

// A model with an embedding and a head of their own kinds. Whole numbers, so that sums are exact and ties are many.
class RandomProblems {
 public:
  PartitionProblem Next() {
    PartitionProblem problem;
    const uint32_t kind = Below(4);  // one stage per worker; V; loops of two and three
    problem.num_chunks = kind == 0 ? 1 : (kind == 3 ? 3 : 2);
    problem.placement = kind == 1 ? StagePlacement::kV : StagePlacement::kLoop;
    const size_t num_workers = kind == 0 ? 1 + Below(4) : 1 + Below(2);
    for (size_t i = 0; i < num_workers; ++i) AddWorker(problem);
    const size_t n = problem.num_stages() + Below(static_cast<uint32_t>(10 - problem.num_stages()));
    for (size_t i = 0; i < n; ++i) AddLayer(problem);
    problem.layers.front().is_block = n == 1;
    if (n > 3)
      problem.layers.back() = {.forward_seconds = 1.0 * Below(20), .is_block = false, .state_bytes = Below(20)};
    for (size_t stage = 0; stage < problem.num_stages(); ++stage) {
      problem.slots.push_back({Below(2), 1 + Below(3), 1 + Below(4), Below(3), Below(3), Below(3)});
    }
    problem.load_bytes = Below(3);
    if (n > 1 && Below(2) == 0) {
      problem.tie = {
          .owner_layer = 0, .later_layer = static_cast<uint32_t>(n - 1), .together_bytes = 0, .apart_bytes = Below(6)};
      problem.tie->together_bytes = Below(static_cast<uint32_t>(problem.layers.back().state_bytes) + 1);
    }
    if (Below(2) == 0) AddSkips(problem);
    return problem;
  }

 private:
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  void AddSkips(PartitionProblem& problem) {
    problem.num_micro_batches = 1 + Below(6);
    const auto num_layers = static_cast<uint32_t>(problem.layers.size());
    for (uint32_t from = 0; from + 2 < num_layers; ++from) {
      if (Below(3) != 0) continue;
      problem.skips.push_back({from, from + 2 + Below(num_layers - from - 2), Below(5), Below(3) != 0});
    }
  }

  void AddWorker(PartitionProblem& problem) {
    WorkerCapacity worker;
    worker.speed = 1u << (Below(3) == 0 ? Below(3) : 0);
    if (Below(4) != 0) worker.memory_bytes = 20 + Below(160);
    problem.workers.push_back(worker);
  }

  void AddLayer(PartitionProblem& problem) {
    LayerLoad layer{.forward_seconds = 1.0 * Below(4),
                    .backward_input_seconds = 1.0 * Below(3),
                    .backward_weight_seconds = 1.0 * Below(3),
                    .is_block = Below(6) != 0,
                    .state_bytes = Below(12),
                    .input_bytes = Below(3),
                    .saved_bytes = Below(9),
                    .shared_bytes = Below(9),
                    .pending_bytes = Below(5),
                    .scratch_bytes = Below(8),
                    .boundary_bytes = Below(3)};
    if (Below(3) != 0) layer.recompute_seconds = layer.forward_seconds;
    layer.is_always_recomputed = layer.recompute_seconds == layer.forward_seconds && Below(8) == 0;
    // Half of the layers are like the one before, as those of a transformer are.
    problem.layers.push_back(problem.layers.empty() || Below(2) == 0 ? layer : problem.layers.back());
  }

  std::mt19937 random_{11};
};

TEST(PartitionOracleTest, NoPartitionIsBetterThanTheBalancedOne) {
  RandomProblems problems;
  int num_impossible = 0;
  int num_unfit = 0;
  int num_recomputing = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    const PartitionProblem problem = problems.Next();
    const absl::StatusOr<Partition> partition = BalancedPartition(problem);
    const std::optional<Quality> best = BestQuality(problem);
    ASSERT_EQ(partition.ok(), best.has_value()) << "trial " << trial << ": " << partition.status();
    if (!best.has_value()) {
      ++(partition.status().code() == absl::StatusCode::kResourceExhausted ? num_unfit : num_impossible);
      continue;
    }
    ASSERT_TRUE(partition->is_optimal);
    ASSERT_EQ(QualityOf(problem, partition->stages), best) << "trial " << trial;
    ASSERT_EQ(partition->bottleneck_seconds, std::get<0>(*best)) << "trial " << trial;
    ASSERT_EQ(partition->lower_bound_seconds, partition->bottleneck_seconds);
    ASSERT_EQ(partition->stages.front().first, 0u);
    ASSERT_EQ(partition->stages.back().last + 1, problem.layers.size());

    std::vector<double> seconds(problem.workers.size());
    std::vector<uint64_t> bytes(problem.workers.size());
    std::vector<uint64_t> scratch(problem.workers.size());
    for (size_t stage = 0; stage < partition->stages.size(); ++stage) {
      uint32_t recomputed = 0;
      for (const uint32_t layer : partition->recomputed_layers[stage]) recomputed |= 1u << layer;
      const StageLoad load = LoadOf(problem, stage, partition->stages[stage], recomputed);
      const uint32_t rank = RankOf(problem, stage);
      seconds[rank] += load.seconds;
      bytes[rank] += load.bytes;
      scratch[rank] = std::max(scratch[rank], load.scratch);
      if (recomputed != 0) ++num_recomputing;
    }
    for (size_t rank = 0; rank < seconds.size(); ++rank) {
      ASSERT_LE(seconds[rank] / problem.workers[rank].speed, partition->bottleneck_seconds) << "trial " << trial;
      ASSERT_LE(bytes[rank] + scratch[rank], problem.workers[rank].memory_bytes) << "trial " << trial;
    }
  }
  EXPECT_GT(num_impossible, 300);
  EXPECT_GT(num_unfit, 500);
  EXPECT_GT(num_recomputing, 1000);
  EXPECT_LT(num_impossible + num_unfit, 7000);
}

}  // namespace
}  // namespace stagecoach
