#include "coordinator/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/cost_model.h"
#include "coordinator/plan/fit_advice.h"
#include "coordinator/plan/micro_batch_sizes.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/forward_only.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

bool HasValidation(const v1::DataSpec& data) { return !data.validation().empty() || data.validation_fraction() > 0; }

absl::Status FillStages(const ScheduledCut& cut, v1::Plan& plan) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint32_t> worker_of_stage, WorkersOfStages(cut.table));
  for (size_t stage = 0; stage < worker_of_stage.size(); ++stage) {
    v1::StagePlan& added = *plan.add_stages();
    added.set_worker_rank(worker_of_stage[stage]);
    added.set_first_layer(cut.partition.stages[stage].first);
    added.set_last_layer(cut.partition.stages[stage].last);
    const StageCost& cost = cut.schedule_problem.cost_of_stage[stage];
    added.set_forward_seconds(cost.forward);
    added.set_backward_input_seconds(cost.backward_input);
    added.set_backward_weight_seconds(cost.backward_weight);
    added.set_recompute_seconds(cost.recompute);
    for (const uint32_t layer : cut.partition.recomputed_layers[stage]) added.add_recomputed_layers(layer);
  }
  return absl::OkStatus();
}

void FillTimes(const ScheduledCut& cut, v1::Plan& plan) {
  plan.set_step_seconds(cut.step_seconds());
  plan.set_bubble_ratio(cut.timeline.bubble_ratio_span);
  plan.set_lower_bound_seconds(cut.timeline.lower_bound + cut.update_seconds);
  double slowest = 0;
  double sum = 0;
  for (const v1::StagePlan& stage : plan.stages()) {
    const double seconds = stage.forward_seconds() + stage.backward_input_seconds() + stage.backward_weight_seconds() +
                           stage.recompute_seconds();
    slowest = std::max(slowest, seconds);
    sum += seconds;
  }
  plan.set_partition_imbalance_ratio(sum > 0 ? slowest * plan.stages_size() / sum : 1);
}

// Whatever sends a transport has, and however programs were made.
absl::Status VerifyBoth(const PlannedJob& job, const std::vector<v1::StageProgram>& programs,
                        const std::vector<uint64_t>& limits) {
  for (const SendSemantics sends : {SendSemantics::kRendezvous, SendSemantics::kBuffered}) {
    STAGECOACH_RETURN_IF_ERROR(Verify(
        {.programs = programs, .graph = job.graph, .plan = job.plan, .memory_limit_bytes = limits, .sends = sends}));
  }
  return absl::OkStatus();
}

// On the workers that train the stages.
absl::StatusOr<std::vector<v1::StageProgram>> LowerEvaluation(const PlannedJob& job) {
  std::vector<uint32_t> worker_of_stage;
  for (const v1::StagePlan& stage : job.plan.stages()) worker_of_stage.push_back(stage.worker_rank());
  return Lower(ForwardTable(worker_of_stage, job.plan.num_micro_batches()), job.graph, job.plan, {});
}

// For the graph and the plan that the job has; adds what its stages need. Nothing is proven, and memory is not compared
// with anything, yet.
absl::Status FillPrograms(const v1::JobSpec& spec, const v1::ComputeTable& table, PlannedJob& job) {
  STAGECOACH_ASSIGN_OR_RETURN(job.programs, Lower(table, job.graph, job.plan, {}));
  if (HasValidation(spec.data())) {
    STAGECOACH_ASSIGN_OR_RETURN(job.evaluation_programs, LowerEvaluation(job));
  }
  FillStageMemory(job.graph, job.programs, job.evaluation_programs, StateOptionsOf(spec), job.plan);
  return absl::OkStatus();
}

absl::StatusOr<PlannedJob> LowerCut(const v1::JobSpec& spec, const CutRequest& request, const ScheduledCut& cut) {
  PlannedJob job;
  job.graph = request.graph;
  job.cut = cut;
  job.plan.set_schedule(cut.table.schedule());
  job.plan.set_num_micro_batches(cut.schedule_problem.num_micro_batches);
  STAGECOACH_RETURN_IF_ERROR(FillStages(cut, job.plan));
  FillTimes(cut, job.plan);
  if (cut.is_searched) job.order = cut.table;
  STAGECOACH_RETURN_IF_ERROR(FillPrograms(spec, cut.table, job));
  return job;
}

// [num_workers]
std::vector<uint64_t> LoweredBytesOf(const PlannedJob& job) {
  std::vector<uint64_t> needed(job.programs.size());
  for (const v1::StagePlan& stage : job.plan.stages()) needed[stage.worker_rank()] += stage.memory_bytes().total();
  return needed;
}

void FillCandidates(const std::vector<ScheduleCandidate>& candidates, PlannedJob& job) {
  for (const ScheduleCandidate& candidate : candidates) {
    v1::PlanCandidate& added = *job.plan.add_candidates();
    added.set_schedule(candidate.schedule);
    added.set_virtual_stages(candidate.num_chunks);
    added.set_step_seconds(candidate.step_seconds);
    added.set_bubble_ratio(candidate.bubble_ratio);
    added.set_memory_bytes(candidate.peak_bytes);
    added.set_why_not(candidate.gains_too_little ? absl::StrCat("gains less than ", 100 * kLeastGainOfOrder, "%")
                                                 : std::string(candidate.status.message()));
  }
  // The others are not lowered, so that the partitioner's word must do.
  const std::vector<uint64_t> needed = LoweredBytesOf(job);
  job.plan.mutable_candidates(0)->set_memory_bytes(*std::max_element(needed.begin(), needed.end()));
}

absl::Status VerifyJob(const PlannedJob& job, const std::vector<WorkerProfile>& workers) {
  std::vector<uint64_t> limits;
  for (size_t rank = 0; rank < job.programs.size(); ++rank) {
    limits.push_back(workers[rank].memory_bytes == 0 ? UINT64_MAX : workers[rank].memory_bytes);
  }
  STAGECOACH_RETURN_IF_ERROR(VerifyBoth(job, job.programs, limits));
  if (job.evaluation_programs.empty()) return absl::OkStatus();
  return VerifyBoth(job, job.evaluation_programs, limits);
}

absl::StatusOr<PlannedJob> PlanSized(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                     const PlanOptions& options) {
  STAGECOACH_ASSIGN_OR_RETURN(const JobRequest request, JobRequestOf(spec, workers, options));
  PlannedJob job;  // of the cut that was lowered last
  const absl::StatusOr<ScheduleChoice> choice = ChooseSchedule(
      request.cut, request.schedules, [&](const ScheduledCut& cut) -> absl::StatusOr<std::vector<uint64_t>> {
        STAGECOACH_ASSIGN_OR_RETURN(job, LowerCut(spec, request.cut, cut));
        return LoweredBytesOf(job);
      });
  if (absl::IsResourceExhausted(choice.status())) return DoesNotFit(spec, workers, options, choice.status());
  STAGECOACH_RETURN_IF_ERROR(choice.status());
  FillCandidates(choice->candidates, job);
  job.plan.set_measured_costs(request.measured_costs);
  STAGECOACH_RETURN_IF_ERROR(VerifyJob(job, workers));
  return job;
}

// A micro-batch size with which the job can be cut.
struct SizedCut {
  uint64_t micro_batch_size = 0;
  double step_seconds = 0;
};

// The fastest first; of equals, to a billionth, the one with fewer micro-batches.
bool IsBetterCut(const SizedCut& a, const SizedCut& b) {
  constexpr double kEqual = 1e-9;
  if (std::abs(a.step_seconds - b.step_seconds) > kEqual * std::max(a.step_seconds, b.step_seconds)) {
    return a.step_seconds < b.step_seconds;
  }
  return a.micro_batch_size > b.micro_batch_size;
}

absl::StatusOr<PlannedJob> PlanBestSize(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                        const PlanOptions& options) {
  const std::vector<uint64_t> sizes = MicroBatchSizes(spec, workers.size());
  if (sizes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("training.micro_batch_size auto: no divisor of global_batch_size ",
                                                   spec.training().global_batch_size(),
                                                   " makes micro-batches that are neither too large nor too many; "
                                                   "choose a number with more divisors"));
  }
  std::vector<SizedCut> cuts;
  for (const uint64_t size : sizes) {
    const absl::StatusOr<JobCut> cut = CutJob(WithMicroBatchSize(spec, size), workers, options);
    if (cut.ok()) cuts.push_back({size, cut->choice.cut.step_seconds()});
  }
  // Lowering may need more memory than the cut was reckoned with.
  while (!cuts.empty()) {
    const auto best = std::min_element(cuts.begin(), cuts.end(), IsBetterCut);
    absl::StatusOr<PlannedJob> job = PlanSized(WithMicroBatchSize(spec, best->micro_batch_size), workers, options);
    if (!absl::IsResourceExhausted(job.status())) return job;
    cuts.erase(best);
  }
  return PlanSized(WithMicroBatchSize(spec, sizes.front()), workers, options);
}

// That the order is one of the plan's stages on the plan's workers.
absl::Status CheckOrderOfPlan(const v1::ComputeTable& order, const v1::Plan& plan) {
  STAGECOACH_ASSIGN_OR_RETURN(const std::vector<uint32_t> worker_of_stage, WorkersOfStages(order));
  const bool is_of_plan =
      order.num_micro_batches() == plan.num_micro_batches() &&
      std::equal(plan.stages().begin(), plan.stages().end(), worker_of_stage.begin(), worker_of_stage.end(),
                 [](const v1::StagePlan& stage, uint32_t worker) { return stage.worker_rank() == worker; });
  if (is_of_plan) return absl::OkStatus();
  return absl::InvalidArgumentError("the order of the plan is that of other stages, workers or micro-batches");
}

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) {
  return PlanJobWith(spec, workers, {});
}

absl::StatusOr<PlannedJob> PlanJobWith(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                       const PlanOptions& options) {
  return ChoosesMicroBatchSize(spec) ? PlanBestSize(spec, workers, options) : PlanSized(spec, workers, options);
}

absl::StatusOr<PlannedJob> LowerAgain(const v1::JobSpec& spec, const v1::Plan& plan, const v1::ComputeTable& order,
                                      const std::vector<WorkerProfile>& workers) {
  STAGECOACH_RETURN_IF_ERROR(CheckOrderOfPlan(order, plan));
  if (workers.size() != static_cast<size_t>(order.workers_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("an order for ", order.workers_size(), " workers, and there are ", workers.size()));
  }
  PlannedJob job;
  STAGECOACH_ASSIGN_OR_RETURN(job.graph, BuildModelGraph(spec));
  job.plan = plan;
  job.order = order;
  STAGECOACH_RETURN_IF_ERROR(FillPrograms(spec, order, job));
  STAGECOACH_RETURN_IF_ERROR(VerifyJob(job, workers));
  return job;
}

}  // namespace stagecoach
