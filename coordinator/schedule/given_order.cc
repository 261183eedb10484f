#include "coordinator/schedule/given_order.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"
#include "common/status_macros.h"
#include "coordinator/schedule/compute_csv.h"

namespace stagecoach {
namespace {

// Two chunks of one worker are placed in both ways; a loop is what most schedules know.
std::optional<StagePlacement> PlacementOf(const std::vector<uint32_t>& worker_of_stage, uint32_t num_workers) {
  for (const StagePlacement placement : {StagePlacement::kLoop, StagePlacement::kV}) {
    if (placement == StagePlacement::kV && worker_of_stage.size() != 2 * size_t{num_workers}) continue;
    const auto is_there = [&, stage = uint32_t{0}](uint32_t worker) mutable {
      return worker == WorkerOfStage(placement, num_workers, stage++);
    };
    if (std::all_of(worker_of_stage.begin(), worker_of_stage.end(), is_there)) return placement;
  }
  return std::nullopt;
}

absl::Status CheckTrains(const v1::ComputeTable& table) {
  bool has_backward = false;
  for (const v1::WorkerActions& row : table.workers()) {
    for (const v1::Action& action : row.actions()) {
      has_backward |= action.kind() != v1::ACTION_KIND_FORWARD;
      if (action.kind() != v1::ACTION_KIND_RECOMPUTE) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(ActionText(action),
                       ": R is put in where parallelism.activation_checkpointing makes it necessary; leave it out"));
    }
  }
  if (has_backward) return absl::OkStatus();
  return absl::InvalidArgumentError("it has no backward, and does not train");
}

}  // namespace

GivenOrder::GivenOrder(v1::ComputeTable table, StagePlacement placement)
    : table_(std::move(table)), placement_(placement) {}

absl::StatusOr<std::unique_ptr<const GivenOrder>> GivenOrder::Create(v1::ComputeTable table) {
  // As text it is checked like a file, and errors say where.
  STAGECOACH_ASSIGN_OR_RETURN(table, ParseComputeCsv(ComputeCsv(table), table.schedule()));
  STAGECOACH_RETURN_IF_ERROR(CheckTrains(table));
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint32_t> worker_of_stage, WorkersOfStages(table));
  const auto num_workers = static_cast<uint32_t>(table.workers_size());
  const std::optional<StagePlacement> placement = PlacementOf(worker_of_stage, num_workers);
  if (placement.has_value() && table.num_stages() % num_workers == 0) {
    return absl::WrapUnique(new GivenOrder(std::move(table), *placement));
  }
  return absl::InvalidArgumentError(absl::StrCat("its stages are placed neither in a loop (stage s on worker s mod ",
                                                 num_workers,
                                                 ", as many on each) nor in a V (down the workers and up again)"));
}

absl::StatusOr<v1::ComputeTable> GivenOrder::Build(const ScheduleProblem& problem) const {
  if (problem.num_workers == num_workers() && problem.num_chunks == num_chunks() &&
      problem.num_micro_batches == table_.num_micro_batches()) {
    return table_;
  }
  return absl::InvalidArgumentError(absl::StrCat(name(), ": an order of ", num_workers(), " worker(s) x ", num_chunks(),
                                                 " stage(s) and ", table_.num_micro_batches(),
                                                 " micro-batch(es), not of ", problem.num_workers, " x ",
                                                 problem.num_chunks, " and ", problem.num_micro_batches));
}

}  // namespace stagecoach
