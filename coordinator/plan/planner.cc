#include "coordinator/plan/planner.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/snapshots.h"
#include "common/status_macros.h"
#include "coordinator/plan/asked_partition.h"
#include "coordinator/plan/layer_loads.h"
#include "coordinator/program/lowering.h"
#include "coordinator/program/stage_memory.h"
#include "coordinator/program/verifier.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

constexpr absl::string_view kEvaluationSchedule = "forward_only";
// Of jobs. The schedule `auto` is made for costs and memory that a plan does not give it yet.
constexpr absl::string_view kChoiceOfAuto = "1f1b";

absl::StatusOr<size_t> NumStages(const v1::ParallelismSpec& parallelism, size_t num_workers) {
  if (num_workers == 0) return absl::InvalidArgumentError("there is no worker to plan for; start at least one");
  const size_t degree = parallelism.pipeline_parallel_degree();
  if (degree == 0) return num_workers;
  if (degree <= num_workers) return degree;
  return absl::InvalidArgumentError(absl::StrCat("parallelism.pipeline_parallel_degree is ", degree, " and ",
                                                 num_workers, " workers are free; start ", degree - num_workers,
                                                 " more or lower the degree"));
}

absl::StatusOr<uint32_t> NumMicroBatches(const v1::JobSpec& spec) {
  const uint64_t replicas = std::max<uint64_t>(1, spec.parallelism().data_parallel_degree());
  const uint64_t global = spec.training().global_batch_size();
  const uint64_t micro = spec.training().micro_batch_size();
  if (micro == 0 || global == 0 || global % micro != 0 || global / micro % replicas != 0) {
    return absl::InvalidArgumentError(absl::StrCat("training.global_batch_size ", global,
                                                   " is not a multiple of micro_batch_size ", micro,
                                                   " x data_parallel_degree ", replicas));
  }
  const uint64_t m = global / micro / replicas;
  if (m > UINT32_MAX) return absl::InvalidArgumentError(absl::StrCat(m, " micro-batches are too many"));
  return static_cast<uint32_t>(m);
}

bool HasValidation(const v1::DataSpec& data) { return !data.validation().empty() || data.validation_fraction() > 0; }

uint64_t OptimizerBytesPerElement(const v1::OptimizerSpec& optimizer) {
  constexpr uint64_t kMomentBytes = 4;
  if (optimizer.name() == "adamw") return 2 * kMomentBytes;
  return optimizer.momentum() > 0 ? kMomentBytes : 0;
}

void AddStage(const v1::ModelGraph& graph, LayerRange range, double flops_per_second, v1::Plan& plan) {
  const auto worker_rank = static_cast<uint32_t>(plan.stages_size());
  v1::StagePlan& stage = *plan.add_stages();
  stage.set_worker_rank(worker_rank);
  stage.set_first_layer(range.first);
  stage.set_last_layer(range.last);
  double forward = 0, backward_input = 0, backward_weight = 0;
  for (uint32_t layer = range.first; layer <= range.last; ++layer) {
    const v1::LayerCost& cost = graph.layers(static_cast<int>(layer)).cost();
    forward += cost.forward_flops();
    backward_input += cost.backward_input_flops();
    backward_weight += cost.backward_weight_flops();
  }
  stage.set_forward_seconds(forward / flops_per_second);
  stage.set_backward_input_seconds(backward_input / flops_per_second);
  stage.set_backward_weight_seconds(backward_weight / flops_per_second);
}

ScheduleProblem ProblemOf(const v1::Plan& plan) {
  ScheduleProblem problem;
  problem.num_workers = static_cast<uint32_t>(plan.stages_size());
  problem.num_micro_batches = plan.num_micro_batches();
  for (const v1::StagePlan& stage : plan.stages()) {
    problem.cost_of_stage.push_back(
        {stage.forward_seconds(), stage.backward_input_seconds(), stage.backward_weight_seconds()});
  }
  return problem;
}

void FillTimes(const Timeline& timeline, v1::Plan& plan) {
  plan.set_step_seconds(timeline.makespan);
  plan.set_bubble_ratio(timeline.bubble_ratio_span);
  plan.set_lower_bound_seconds(timeline.lower_bound);
  double slowest = 0;
  double sum = 0;
  for (const v1::StagePlan& stage : plan.stages()) {
    const double seconds = stage.forward_seconds() + stage.backward_input_seconds() + stage.backward_weight_seconds();
    slowest = std::max(slowest, seconds);
    sum += seconds;
  }
  plan.set_partition_imbalance_ratio(sum > 0 ? slowest * plan.stages_size() / sum : 1);
}

absl::Status CheckMemory(const v1::Plan& plan, const std::vector<uint64_t>& limits) {
  for (int stage = 0; stage < plan.stages_size(); ++stage) {
    const uint64_t needed = plan.stages(stage).memory_bytes().total();
    const uint64_t available = limits[plan.stages(stage).worker_rank()];
    if (needed <= available) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("stage ", stage, " needs ", needed, " bytes and its worker has ", available,
                     "; use more workers, or a smaller training.micro_batch_size or seq_len"));
  }
  return absl::OkStatus();
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

absl::StatusOr<std::vector<v1::StageProgram>> LowerEvaluation(const PlannedJob& job, const ScheduleProblem& problem) {
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(kEvaluationSchedule));
  STAGECOACH_ASSIGN_OR_RETURN(const v1::ComputeTable table, schedule->Build(problem));
  return Lower(table, job.graph, job.plan, {});
}

absl::StatusOr<const Schedule*> TrainingSchedule(const std::string& name) {
  const bool is_auto = name.empty() || name == "auto";
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(is_auto ? kChoiceOfAuto : name));
  if (!schedule->forward_only()) return schedule;
  return absl::InvalidArgumentError(absl::StrCat("parallelism.schedule ", name, " does not train"));
}

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers) {
  PlannedJob job;
  STAGECOACH_ASSIGN_OR_RETURN(const size_t num_stages, NumStages(spec.parallelism(), workers.size()));
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, TrainingSchedule(spec.parallelism().schedule()));
  STAGECOACH_ASSIGN_OR_RETURN(const uint32_t num_micro_batches, NumMicroBatches(spec));
  STAGECOACH_ASSIGN_OR_RETURN(job.graph, BuildModelGraph(spec));
  PartitionProblem cut{.layers = LayerLoadsOf(job.graph, {}), .workers = {}};
  std::vector<uint64_t> limits;
  for (size_t rank = 0; rank < num_stages; ++rank) {
    cut.workers.push_back({.speed = workers[rank].flops_per_second});
    limits.push_back(workers[rank].memory_bytes == 0 ? UINT64_MAX : workers[rank].memory_bytes);
  }
  STAGECOACH_ASSIGN_OR_RETURN(const Partition partition, PartitionAsAsked(cut, spec.parallelism().partition()));

  job.plan.set_schedule(std::string(schedule->name()));
  job.plan.set_num_micro_batches(num_micro_batches);
  for (size_t stage = 0; stage < num_stages; ++stage) {
    AddStage(job.graph, partition.stages[stage], workers[stage].flops_per_second, job.plan);
  }
  const ScheduleProblem problem = ProblemOf(job.plan);
  STAGECOACH_ASSIGN_OR_RETURN(job.table, schedule->Build(problem));
  STAGECOACH_ASSIGN_OR_RETURN(job.timeline, Simulate(job.table, problem));
  FillTimes(job.timeline, job.plan);

  STAGECOACH_ASSIGN_OR_RETURN(job.programs, Lower(job.table, job.graph, job.plan, {}));
  if (HasValidation(spec.data())) {
    STAGECOACH_ASSIGN_OR_RETURN(job.evaluation_programs, LowerEvaluation(job, problem));
  }
  FillStageMemory(job.graph, job.programs, job.evaluation_programs,
                  {.optimizer_bytes_per_element = OptimizerBytesPerElement(spec.optimizer()),
                   .takes_snapshots = TakesSnapshots(spec.checkpoint())},
                  job.plan);
  STAGECOACH_RETURN_IF_ERROR(CheckMemory(job.plan, limits));
  STAGECOACH_RETURN_IF_ERROR(VerifyBoth(job, job.programs, limits));
  if (!job.evaluation_programs.empty()) {
    STAGECOACH_RETURN_IF_ERROR(VerifyBoth(job, job.evaluation_programs, limits));
  }
  return job;
}

}  // namespace stagecoach
