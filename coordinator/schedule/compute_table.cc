#include "coordinator/schedule/compute_table.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace stagecoach {
namespace {

bool IsTime(double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; }  // neither holds of NaN

absl::Status CheckTime(absl::string_view what, size_t index, double seconds) {
  if (IsTime(seconds)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", index, " is ", seconds, "; times are from 0 to ", kMaxSeconds));
}

absl::Status CheckSkipEdge(const SkipCost& skip, uint32_t num_stages) {
  const std::string name = absl::StrCat("the skip edge from stage ", skip.from_stage, " to stage ", skip.to_stage);
  if (skip.from_stage >= skip.to_stage || skip.to_stage >= num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " does not lead from one of ", num_stages, " stages to a later one"));
  }
  if (IsTime(skip.seconds)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the transfer on ", name, " is ", skip.seconds, "; times are from 0 to ", kMaxSeconds));
}

absl::Status CheckLimits(const ScheduleProblem& problem) {
  if (!problem.memory_limit.empty() && problem.memory_limit.size() != problem.num_workers) {
    return absl::InvalidArgumentError(absl::StrCat("memory limits of ", problem.memory_limit.size(), " workers for ",
                                                   problem.num_workers, " workers"));
  }
  for (size_t worker = 0; worker < problem.memory_limit.size(); ++worker) {
    if (problem.memory_limit[worker] >= 0) continue;  // infinite: none
    return absl::InvalidArgumentError(
        absl::StrCat("the memory limit of worker ", worker, " is ", problem.memory_limit[worker], " micro-batches"));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const ScheduleProblem& problem) {
  const uint64_t p = problem.num_workers;
  const uint64_t m = problem.num_micro_batches;
  const uint64_t v = problem.num_chunks;
  if (p == 0 || p > kMaxStages) {
    return absl::InvalidArgumentError(absl::StrCat(p, " workers; 1 to ", kMaxStages, " are possible"));
  }
  if (p * v > kMaxStages) {
    return absl::InvalidArgumentError(
        absl::StrCat(p, " workers x ", v, " chunks; at most ", kMaxStages, " stages are possible"));
  }
  if (m == 0 || m > kMaxMicroBatches) {
    return absl::InvalidArgumentError(absl::StrCat(m, " micro-batches; 1 to ", kMaxMicroBatches, " are possible"));
  }
  if (p * v * m > kMaxForwards) {
    return absl::InvalidArgumentError(absl::StrCat(p * v, " stages x ", m, " micro-batches is more than ", kMaxForwards,
                                                   "; use larger micro-batches or fewer stages"));
  }
  return absl::OkStatus();
}

absl::Status CheckChunks(const ScheduleProblem& problem, const Schedule& schedule) {
  if (schedule.AcceptsChunks(problem.num_chunks)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(problem.num_chunks, " chunks per worker asked for; it runs with ", schedule.default_chunks()));
}

absl::Status CheckParts(const ScheduleProblem& problem, const Schedule& schedule) {
  STAGECOACH_RETURN_IF_ERROR(CheckChunks(problem, schedule));
  STAGECOACH_RETURN_IF_ERROR(CheckSize(problem));
  STAGECOACH_RETURN_IF_ERROR(CheckTimes(problem, problem.num_workers * problem.num_chunks));
  return CheckLimits(problem);
}

}  // namespace

absl::Status CheckTimes(const ScheduleProblem& problem, uint32_t num_stages) {
  const std::vector<StageCost>& costs = problem.cost_of_stage;
  if (!costs.empty() && costs.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat("costs of ", costs.size(), " stages for ", num_stages, " stages"));
  }
  for (size_t stage = 0; stage < costs.size(); ++stage) {
    STAGECOACH_RETURN_IF_ERROR(CheckTime("the forward of stage", stage, costs[stage].forward));
    STAGECOACH_RETURN_IF_ERROR(CheckTime("the input gradient of stage", stage, costs[stage].backward_input));
    STAGECOACH_RETURN_IF_ERROR(CheckTime("the weight gradient of stage", stage, costs[stage].backward_weight));
    STAGECOACH_RETURN_IF_ERROR(CheckTime("the recomputation of stage", stage, costs[stage].recompute));
  }
  const std::vector<double>& edges = problem.edge_seconds;
  if (!edges.empty() && edges.size() + 1 != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat("times of ", edges.size(), " edges for ", num_stages, " stages"));
  }
  for (size_t edge = 0; edge < edges.size(); ++edge) {
    STAGECOACH_RETURN_IF_ERROR(CheckTime("the transfer from stage", edge, edges[edge]));
  }
  for (const SkipCost& skip : problem.skip_edges) {
    STAGECOACH_RETURN_IF_ERROR(CheckSkipEdge(skip, num_stages));
  }
  if (IsTime(problem.communication_seconds)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the latency of a hop is ", problem.communication_seconds, "; times are from 0 to ", kMaxSeconds));
}

absl::Status CheckProblem(const ScheduleProblem& problem, const Schedule& schedule) {
  return WithContext(CheckParts(problem, schedule), schedule.name());
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
