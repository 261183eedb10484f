#include "coordinator/schedule/compute_table.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace stagecoach {

absl::Status CheckOneChunkProblem(const ScheduleProblem& problem, absl::string_view schedule) {
  const uint64_t p = problem.num_workers;
  const uint64_t m = problem.num_micro_batches;
  if (p == 0 || p > kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat(schedule, ": ", p, " stages; 1 to ", kMaxStages, " are possible"));
  }
  if (m == 0 || m > kMaxMicroBatches) {
    return absl::InvalidArgumentError(
        absl::StrCat(schedule, ": ", m, " micro-batches; 1 to ", kMaxMicroBatches, " are possible"));
  }
  if (p * m > kMaxForwards) {
    return absl::InvalidArgumentError(absl::StrCat(schedule, ": ", p, " stages x ", m, " micro-batches is more than ",
                                                   kMaxForwards, "; use larger micro-batches or fewer stages"));
  }
  if (problem.num_chunks != 1) {
    return absl::InvalidArgumentError(absl::StrCat(schedule, " runs one stage per worker; ", problem.num_chunks,
                                                   " chunks asked for; leave virtual stages at 1"));
  }
  if (!problem.cost_of_stage.empty() && problem.cost_of_stage.size() != p) {
    return absl::InvalidArgumentError(
        absl::StrCat(schedule, ": costs of ", problem.cost_of_stage.size(), " stages for ", p, " stages"));
  }
  return absl::OkStatus();
}

v1::ComputeTable EmptyTable(const ScheduleProblem& problem, absl::string_view schedule) {
  v1::ComputeTable table;
  table.set_schedule(std::string(schedule));
  table.set_num_stages(problem.num_workers * problem.num_chunks);
  table.set_num_micro_batches(problem.num_micro_batches);
  for (uint32_t worker = 0; worker < problem.num_workers; ++worker) table.add_workers();
  return table;
}

void Append(v1::WorkerActions& row, v1::ActionKind kind, uint32_t stage, uint32_t micro_batch) {
  v1::Action* action = row.add_actions();
  action->set_kind(kind);
  action->set_stage(stage);
  action->set_micro_batch(micro_batch);
}

}  // namespace stagecoach
