#include "coordinator/plan/partition_problem.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/slot_counts.h"

namespace stagecoach {
namespace {

// So that no sum of bytes overflows.
constexpr double kMaxBytes = 0x1p60;

absl::Status CheckStageCount(const PartitionProblem& problem) {
  const size_t num_stages = problem.num_stages();
  const auto num_blocks = static_cast<size_t>(std::count_if(problem.layers.begin(), problem.layers.end(),
                                                            [](const LayerLoad& layer) { return layer.is_block; }));
  if (num_stages == 0) {
    return absl::InvalidArgumentError("there is no stage to put layers on; a pipeline has at least one");
  }
  if (num_stages <= num_blocks) return absl::OkStatus();
  const std::string stages = problem.num_chunks == 1 ? absl::StrCat(num_stages, " stages")
                                                     : absl::StrCat(num_stages, " stages (", problem.workers.size(),
                                                                    " workers x ", problem.num_chunks, ")");
  return absl::InvalidArgumentError(absl::StrCat(
      stages, " for ", num_blocks,
      " transformer blocks (model.config.num_hidden_layers): every stage holds at least one; set ",
      problem.num_chunks == 1 ? "" : "parallelism.virtual_stages to less or ",
      "parallelism.pipeline_parallel_degree to ", std::max<size_t>(1, num_blocks / problem.num_chunks), " or less"));
}

bool IsTime(double seconds) { return seconds >= 0 && std::isfinite(seconds); }

absl::Status CheckTimes(const PartitionProblem& problem) {
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    const LayerLoad& layer = problem.layers[i];
    const bool sound = IsTime(layer.forward_seconds) && IsTime(layer.backward_input_seconds) &&
                       IsTime(layer.backward_weight_seconds) && layer.recompute_seconds >= 0 &&
                       (!layer.is_always_recomputed || IsTime(layer.recompute_seconds));
    if (sound) continue;
    return absl::InvalidArgumentError(absl::StrCat("layer ", i, " takes ", layer.forward_seconds, ", ",
                                                   layer.backward_input_seconds, " and ", layer.backward_weight_seconds,
                                                   " seconds, which are no times"));
  }
  for (size_t rank = 0; rank < problem.workers.size(); ++rank) {
    const double speed = problem.workers[rank].speed;
    if (speed > 0 && std::isfinite(speed)) continue;
    return absl::InvalidArgumentError(absl::StrCat("worker ", rank, " has speed ", speed, "; speeds are above 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckSkips(const PartitionProblem& problem) {
  for (size_t i = 0; i < problem.skips.size(); ++i) {
    const SkipLoad& skip = problem.skips[i];
    const bool is_ascending = i == 0 || problem.skips[i - 1].from_layer <= skip.from_layer;
    if (is_ascending && skip.from_layer < skip.to_layer && skip.to_layer < problem.layers.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("skip ", i, " leads from layer ", skip.from_layer, " to layer ",
                                                   skip.to_layer, " of ", problem.layers.size(),
                                                   ", or is not in order"));
  }
  return absl::OkStatus();
}

double MostBytes(const PartitionProblem& problem) {
  StageSlotCounts most;
  for (const StageSlotCounts& slots : problem.slots) {
    most.load = std::max(most.load, slots.load);
    most.saved = std::max(most.saved, slots.saved);
    most.shared = std::max(most.shared, slots.shared);
    most.pending = std::max(most.pending, slots.pending);
    most.transfers_before = std::max({most.transfers_before, slots.transfers_before, slots.transfers_behind});
  }
  double bytes = static_cast<double>(problem.load_bytes) * most.load;
  for (const LayerLoad& layer : problem.layers) {
    const double shared = static_cast<double>(layer.input_bytes) + static_cast<double>(layer.shared_bytes);
    bytes += static_cast<double>(layer.state_bytes) + shared * most.shared +
             static_cast<double>(layer.saved_bytes) * most.saved +
             static_cast<double>(layer.pending_bytes) * most.pending +
             2 * static_cast<double>(layer.boundary_bytes) * most.transfers_before +
             static_cast<double>(layer.scratch_bytes);
  }
  // At both ends, in both directions.
  const double skip_slots = 2.0 * kTransferSlots + 2.0 * problem.num_micro_batches;
  for (const SkipLoad& skip : problem.skips) bytes += static_cast<double>(skip.bytes) * (1 + skip_slots);
  if (problem.tie.has_value()) {
    bytes += static_cast<double>(problem.tie->together_bytes) + static_cast<double>(problem.tie->apart_bytes);
  }
  return bytes;
}

}  // namespace

absl::Status CheckPartitionProblem(const PartitionProblem& problem) {
  if (problem.layers.size() > kMaxPartitionedLayers) {
    return absl::InvalidArgumentError(absl::StrCat(problem.layers.size(), " layers; at most ", kMaxPartitionedLayers,
                                                   " can be balanced: lower model.config.num_hidden_layers"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckStageCount(problem));
  if (!problem.slots.empty() && problem.slots.size() != problem.num_stages()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots of ", problem.slots.size(), " stages for ", problem.num_stages(), " stages"));
  }
  if (problem.placement == StagePlacement::kV && problem.num_chunks != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a V has two stages on each worker, not ", problem.num_chunks, " of them"));
  }
  STAGECOACH_RETURN_IF_ERROR(CheckTimes(problem));
  STAGECOACH_RETURN_IF_ERROR(CheckSkips(problem));
  if (MostBytes(problem) <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the layers need ", MostBytes(problem),
                                                 " bytes, more than any memory has: make the model, the "
                                                 "micro-batches or their number smaller"));
}

}  // namespace stagecoach
