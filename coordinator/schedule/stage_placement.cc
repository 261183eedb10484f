#include "coordinator/schedule/stage_placement.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/action_text.h"

namespace stagecoach {

uint32_t WorkerOfStage(StagePlacement placement, uint32_t num_workers, uint32_t stage) {
  if (placement == StagePlacement::kV && stage >= num_workers) return 2 * num_workers - 1 - stage;
  return stage % num_workers;
}

absl::StatusOr<std::vector<uint32_t>> WorkersOfStages(const v1::ComputeTable& table) {
  const auto nobody = static_cast<uint32_t>(table.workers_size());
  std::vector<uint32_t> worker_of_stage(table.num_stages(), nobody);
  for (uint32_t worker = 0; worker < nobody; ++worker) {
    for (const v1::Action& action : table.workers(static_cast<int>(worker)).actions()) {
      if (action.stage() >= worker_of_stage.size()) {
        return absl::InvalidArgumentError(absl::StrCat(ActionText(action), " on worker ", worker,
                                                       ": the table has stages 0 to ", table.num_stages(), " - 1"));
      }
      uint32_t& owner = worker_of_stage[action.stage()];
      if (owner != nobody && owner != worker) {
        return absl::InvalidArgumentError(
            absl::StrCat("stage ", action.stage(), " is on workers ", owner, " and ", worker));
      }
      owner = worker;
    }
  }
  for (size_t stage = 0; stage < worker_of_stage.size(); ++stage) {
    if (worker_of_stage[stage] == nobody) {
      return absl::InvalidArgumentError(absl::StrCat("no worker has an action of stage ", stage));
    }
  }
  return worker_of_stage;
}

}  // namespace stagecoach
