#include "coordinator/plan/planner.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/plan/cost_model.h"
#include "coordinator/plan/fit_advice.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/forward_only.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/stage_placement.h"

namespace stagecoach {
namespace {

constexpr int kMaxCuts = 8;  // each leaves more memory free than the one before

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
    const double seconds = stage.forward_seconds() + stage.backward_input_seconds() + stage.backward_weight_seconds();
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

// Lowers and verifies; memory is not compared with anything yet.
absl::StatusOr<PlannedJob> LowerCut(const v1::JobSpec& spec, JobCut planned) {
  const ScheduledCut& cut = planned.choice.cut;
  PlannedJob job;
  job.graph = std::move(planned.graph);
  job.table = cut.table;
  job.timeline = cut.timeline;
  job.candidates = std::move(planned.choice.candidates);
  job.plan.set_schedule(job.candidates[planned.choice.chosen].schedule);
  job.plan.set_num_micro_batches(cut.schedule_problem.num_micro_batches);
  STAGECOACH_RETURN_IF_ERROR(FillStages(cut, job.plan));
  FillTimes(cut, job.plan);
  STAGECOACH_ASSIGN_OR_RETURN(job.programs, Lower(job.table, job.graph, job.plan, {}));
  if (HasValidation(spec.data())) {
    STAGECOACH_ASSIGN_OR_RETURN(job.evaluation_programs, LowerEvaluation(job));
  }
  FillStageMemory(job.graph, job.programs, job.evaluation_programs, StateOptionsOf(spec), job.plan);
  return job;
}

// [num_workers]
std::vector<uint64_t> NeededBytes(const PlannedJob& job) {
  std::vector<uint64_t> needed(job.programs.size());
  for (const v1::StagePlan& stage : job.plan.stages()) needed[stage.worker_rank()] += stage.memory_bytes().total();
  return needed;
}

// The partitioner reckons with a number of transfer slots that lowering need not keep to. True when a worker lacks
// memory; the next cut is then to leave it so much more free.
bool ReserveWhatIsLacking(const std::vector<uint64_t>& needed, const std::vector<WorkerProfile>& workers,
                          std::vector<WorkerProfile>& reckoned) {
  bool is_lacking = false;
  for (size_t rank = 0; rank < needed.size(); ++rank) {
    const uint64_t memory = workers[rank].memory_bytes;
    if (memory == 0 || needed[rank] <= memory) continue;
    is_lacking = true;
    const uint64_t lacking = needed[rank] - memory;
    reckoned[rank].memory_bytes -= std::min(lacking, reckoned[rank].memory_bytes - 1);
  }
  return is_lacking;
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

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) {
  return PlanJobWith(spec, workers, {});
}

absl::StatusOr<PlannedJob> PlanJobWith(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                       const PlanOptions& options) {
  std::vector<WorkerProfile> reckoned = workers;
  for (int i = 0; i < kMaxCuts; ++i) {
    absl::StatusOr<JobCut> cut = CutJob(spec, reckoned, options);
    if (absl::IsResourceExhausted(cut.status())) return DoesNotFit(spec, reckoned, options);
    STAGECOACH_RETURN_IF_ERROR(cut.status());
    STAGECOACH_ASSIGN_OR_RETURN(PlannedJob job, LowerCut(spec, *std::move(cut)));
    if (ReserveWhatIsLacking(NeededBytes(job), workers, reckoned)) continue;
    STAGECOACH_RETURN_IF_ERROR(VerifyJob(job, workers));
    return job;
  }
  return absl::ResourceExhaustedError(absl::StrCat("each of ", kMaxCuts, " cuts needs more for its transfers than its ",
                                                   "workers have left; use more workers, or a smaller ",
                                                   "training.micro_batch_size"));
}

}  // namespace stagecoach
