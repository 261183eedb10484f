#include "coordinator/plan/asked_partition.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "coordinator/plan/memory_shortfall.h"

namespace stagecoach {
namespace {

StagePartition PartitionByBlocks(const std::vector<LayerLoad>& layers, const std::vector<size_t>& blocks_of_stage) {
  StagePartition partition;
  uint32_t next = 0;
  for (size_t stage = 0; stage < blocks_of_stage.size(); ++stage) {
    LayerRange range{next, next};
    for (size_t blocks = 0; blocks < blocks_of_stage[stage]; ++next) {
      if (layers[next].is_block) ++blocks;
    }
    if (stage + 1 == blocks_of_stage.size()) next = static_cast<uint32_t>(layers.size());
    range.last = next - 1;
    partition.push_back(range);
  }
  return partition;
}

std::vector<size_t> EvenBlocks(size_t num_stages, size_t num_blocks) {
  std::vector<size_t> blocks_of_stage;
  for (size_t stage = 0; stage < num_stages; ++stage) {
    blocks_of_stage.push_back(num_blocks / num_stages + (stage < num_blocks % num_stages ? 1 : 0));
  }
  return blocks_of_stage;
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

absl::StatusOr<Partition> PartitionAsAsked(const PartitionProblem& problem, const v1::PartitionSpec& spec) {
  STAGECOACH_RETURN_IF_ERROR(CheckPartitionProblem(problem));
  const auto num_blocks = static_cast<size_t>(std::count_if(problem.layers.begin(), problem.layers.end(),
                                                            [](const LayerLoad& layer) { return layer.is_block; }));
  std::vector<size_t> blocks_of_stage = EvenBlocks(problem.num_stages(), num_blocks);
  switch (spec.kind()) {
    case v1::PartitionSpec::KIND_EVEN:
      break;
    case v1::PartitionSpec::KIND_LAYERS: {
      STAGECOACH_ASSIGN_OR_RETURN(blocks_of_stage, ListedBlocks(spec, problem.num_stages(), num_blocks));
      break;
    }
    default:
      return BalancedPartition(problem);
  }
  const StagePartition stages = PartitionByBlocks(problem.layers, blocks_of_stage);
  absl::StatusOr<Partition> partition = PartitionOfStages(problem, stages);
  if (!absl::IsResourceExhausted(partition.status())) return partition;
  return ShortfallError(problem, ShortfallOfStages(problem, stages));
}

}  // namespace stagecoach
