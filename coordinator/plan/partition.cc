#include "coordinator/plan/partition.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

constexpr size_t kMaxLayers = 10000;  // quadratic time

absl::Status CheckStageCount(size_t num_stages, size_t num_blocks) {
  if (num_stages >= 1 && num_stages <= num_blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      num_stages, " stages for ", num_blocks, " transformer blocks (model.config.num_hidden_layers): every ",
      "stage holds at least one; set parallelism.pipeline_parallel_degree to ", num_blocks, " or less"));
}

// Stages are filled from the last one down, so that the table answers: the best way to give layers [i, n) to the stages
// [s, num_stages). A stage's time is one expression everywhere: comparing it with the bottleneck needs no tolerance.
class Balancing {
 public:
  explicit Balancing(const PartitionProblem& problem)
      : problem_(problem),
        num_layers_(problem.cost_of_layer.size()),
        num_stages_(problem.speed_of_stage.size()),
        cost_before_(num_layers_ + 1),
        blocks_before_(num_layers_ + 1) {
    for (size_t i = 0; i < num_layers_; ++i) {
      cost_before_[i + 1] = cost_before_[i] + problem.cost_of_layer[i];
      blocks_before_[i + 1] = blocks_before_[i] + (problem.is_block[i] ? 1 : 0);
    }
  }

  StagePartition Solve() const {
    const double bottleneck = LeastBottleneck();
    const Table<uint64_t> bytes = LeastBytes(bottleneck);
    StagePartition partition;
    size_t first = 0;
    for (size_t stage = 0; stage < num_stages_; ++stage) {
      const size_t end = EarliestEnd(stage, first, bottleneck, bytes);
      partition.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(end - 1)});
      first = end;
    }
    return partition;
  }

  size_t num_blocks() const { return static_cast<size_t>(blocks_before_.back()); }

 private:
  template <typename T>
  using Table = std::vector<std::vector<T>>;  // [stage][first layer]
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  double Seconds(size_t stage, size_t first, size_t end) const {
    return (cost_before_[end] - cost_before_[first]) / problem_.speed_of_stage[stage];
  }
  bool HoldsBlock(size_t first, size_t end) const { return blocks_before_[end] > blocks_before_[first]; }
  // Where a stage that starts at `first` may end, leaving the last stage all the rest.
  size_t LeastEnd(size_t stage, size_t first) const { return stage + 1 == num_stages_ ? num_layers_ : first + 1; }

  double LeastBottleneck() const {
    Table<double> best(num_stages_ + 1, std::vector<double>(num_layers_ + 1, std::numeric_limits<double>::infinity()));
    best[num_stages_][num_layers_] = 0;
    for (size_t stage = num_stages_; stage-- > 0;) {
      for (size_t first = 0; first < num_layers_; ++first) {
        for (size_t end = LeastEnd(stage, first); end <= num_layers_; ++end) {
          if (Seconds(stage, first, end) >= best[stage][first]) break;  // a longer stage is slower still
          if (!HoldsBlock(first, end)) continue;
          best[stage][first] = std::min(best[stage][first], std::max(Seconds(stage, first, end), best[stage + 1][end]));
        }
      }
    }
    return best[0][0];
  }

  // Of the cuts at and behind `end`.
  uint64_t BytesFrom(size_t stage, size_t end, const Table<uint64_t>& bytes) const {
    const uint64_t rest = bytes[stage + 1][end];
    if (rest == kNever || end == num_layers_) return rest;
    return problem_.boundary_bytes[end - 1] + rest;
  }

  bool Fits(size_t stage, size_t first, size_t end, double bottleneck) const {
    return HoldsBlock(first, end) && Seconds(stage, first, end) <= bottleneck;
  }

  Table<uint64_t> LeastBytes(double bottleneck) const {
    Table<uint64_t> bytes(num_stages_ + 1, std::vector<uint64_t>(num_layers_ + 1, kNever));
    bytes[num_stages_][num_layers_] = 0;
    for (size_t stage = num_stages_; stage-- > 0;) {
      for (size_t first = 0; first < num_layers_; ++first) {
        for (size_t end = LeastEnd(stage, first); end <= num_layers_; ++end) {
          if (Seconds(stage, first, end) > bottleneck) break;
          if (!HoldsBlock(first, end)) continue;
          bytes[stage][first] = std::min(bytes[stage][first], BytesFrom(stage, end, bytes));
        }
      }
    }
    return bytes;
  }

  size_t EarliestEnd(size_t stage, size_t first, double bottleneck, const Table<uint64_t>& bytes) const {
    size_t end = LeastEnd(stage, first);
    while (!Fits(stage, first, end, bottleneck) || BytesFrom(stage, end, bytes) != bytes[stage][first]) ++end;
    return end;
  }

  const PartitionProblem& problem_;
  const size_t num_layers_;
  const size_t num_stages_;
  std::vector<double> cost_before_;  // sums over layers [0, i)
  std::vector<int> blocks_before_;
};

PartitionProblem ProblemOf(const v1::ModelGraph& graph, const std::vector<double>& speed_of_stage) {
  PartitionProblem problem;
  for (const v1::LayerSpec& layer : graph.layers()) {
    problem.cost_of_layer.push_back(layer.cost().forward_flops() + layer.cost().backward_input_flops() +
                                    layer.cost().backward_weight_flops());
    problem.boundary_bytes.push_back(layer.cost().output_bytes());
    problem.is_block.push_back(layer.kind() == v1::LAYER_KIND_TRANSFORMER_BLOCK);
  }
  problem.speed_of_stage = speed_of_stage;
  return problem;
}

StagePartition PartitionByBlocks(const std::vector<bool>& is_block, const std::vector<size_t>& blocks_of_stage) {
  StagePartition partition;
  uint32_t next = 0;
  for (size_t stage = 0; stage < blocks_of_stage.size(); ++stage) {
    LayerRange range{next, next};
    for (size_t blocks = 0; blocks < blocks_of_stage[stage]; ++next) {
      if (is_block[next]) ++blocks;
    }
    if (stage + 1 == blocks_of_stage.size()) next = static_cast<uint32_t>(is_block.size());
    range.last = next - 1;
    partition.push_back(range);
  }
  return partition;
}

absl::StatusOr<std::vector<size_t>> ListedBlocks(const v1::PartitionSpec& spec, size_t num_stages, size_t num_blocks) {
  const std::vector<size_t> listed(spec.num_blocks().begin(), spec.num_blocks().end());
  const std::string list = absl::StrCat("parallelism.partition [", absl::StrJoin(listed, ", "), "]");
  if (listed.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(list, " is for ", listed.size(), " stages, and there are ",
                                                   num_stages, "; make both numbers equal"));
  }
  const size_t sum = std::accumulate(listed.begin(), listed.end(), size_t{0});
  if (sum != num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(list, " sums to ", sum, ", and model.config.num_hidden_layers is ",
                                                   num_blocks, "; every block belongs to one stage"));
  }
  if (std::find(listed.begin(), listed.end(), size_t{0}) != listed.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(list, " has a stage without a block; every stage holds at least one"));
  }
  return listed;
}

}  // namespace

absl::StatusOr<StagePartition> BalancedPartition(const PartitionProblem& problem) {
  if (problem.cost_of_layer.size() > kMaxLayers) {
    return absl::InvalidArgumentError(absl::StrCat(problem.cost_of_layer.size(), " layers; at most ", kMaxLayers,
                                                   " can be balanced: lower model.config.num_hidden_layers"));
  }
  const Balancing balancing(problem);
  STAGECOACH_RETURN_IF_ERROR(CheckStageCount(problem.speed_of_stage.size(), balancing.num_blocks()));
  return balancing.Solve();
}

absl::StatusOr<StagePartition> PartitionGraph(const v1::ModelGraph& graph, const v1::PartitionSpec& spec,
                                              const std::vector<double>& speed_of_stage) {
  const PartitionProblem problem = ProblemOf(graph, speed_of_stage);
  const size_t num_stages = speed_of_stage.size();
  const auto num_blocks = static_cast<size_t>(std::count(problem.is_block.begin(), problem.is_block.end(), true));
  STAGECOACH_RETURN_IF_ERROR(CheckStageCount(num_stages, num_blocks));
  std::vector<size_t> blocks_of_stage;
  switch (spec.kind()) {
    case v1::PartitionSpec::KIND_EVEN:
      for (size_t stage = 0; stage < num_stages; ++stage) {
        blocks_of_stage.push_back(num_blocks / num_stages + (stage < num_blocks % num_stages ? 1 : 0));
      }
      break;
    case v1::PartitionSpec::KIND_LAYERS: {
      STAGECOACH_ASSIGN_OR_RETURN(blocks_of_stage, ListedBlocks(spec, num_stages, num_blocks));
      break;
    }
    default:
      return BalancedPartition(problem);
  }
  return PartitionByBlocks(problem.is_block, blocks_of_stage);
}

}  // namespace stagecoach
