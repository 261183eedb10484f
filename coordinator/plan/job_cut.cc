#include "coordinator/plan/job_cut.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/spec/model_graph.h"

namespace stagecoach {
namespace {

absl::StatusOr<size_t> NumWorkers(const v1::ParallelismSpec& parallelism, size_t num_workers) {
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

absl::StatusOr<const Schedule*> TrainingSchedule(const std::string& name) {
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(name));
  if (!schedule->forward_only()) return schedule;
  return absl::InvalidArgumentError(absl::StrCat("parallelism.schedule ", name, " does not train"));
}

// Stages of each worker: 0 in the specification is what the schedule is made for.
bool RunsWith(const Schedule& schedule, uint32_t virtual_stages) {
  return virtual_stages == 0 || schedule.AcceptsChunks(virtual_stages);
}

absl::StatusOr<std::vector<const Schedule*>> SchedulesOf(const v1::ParallelismSpec& parallelism,
                                                         const PlanOptions& options) {
  const bool is_auto = parallelism.schedule().empty() || parallelism.schedule() == "auto";
  std::vector<const Schedule*> schedules;
  for (const std::string& name : is_auto ? options.schedules : std::vector<std::string>{parallelism.schedule()}) {
    STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, TrainingSchedule(name));
    if (RunsWith(*schedule, parallelism.virtual_stages())) schedules.push_back(schedule);
  }
  if (!schedules.empty()) return schedules;
  if (is_auto) {
    return absl::InvalidArgumentError(absl::StrCat("parallelism.virtual_stages is ", parallelism.virtual_stages(),
                                                   ", with which no schedule runs that auto chooses from; name one"));
  }
  STAGECOACH_ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(parallelism.schedule()));
  return absl::InvalidArgumentError(absl::StrCat("parallelism.virtual_stages is ", parallelism.virtual_stages(),
                                                 ", with which schedule ", schedule->name(),
                                                 " does not run; it is made for ", schedule->default_chunks()));
}

}  // namespace

absl::StatusOr<JobRequest> JobRequestOf(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                                        const PlanOptions& options) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  JobRequest request;
  STAGECOACH_ASSIGN_OR_RETURN(const size_t num_workers, NumWorkers(parallelism, workers.size()));
  STAGECOACH_ASSIGN_OR_RETURN(request.schedules, SchedulesOf(parallelism, options));
  request.num_chunks = parallelism.virtual_stages();
  STAGECOACH_ASSIGN_OR_RETURN(request.cut.num_micro_batches, NumMicroBatches(spec));
  STAGECOACH_ASSIGN_OR_RETURN(request.cut.graph, BuildModelGraph(spec));
  request.cut.seconds = AnalyticSeconds(request.cut.graph, workers.front());
  request.cut.state = StateOptionsOf(spec);
  request.cut.partition = parallelism.partition();
  request.cut.workers.assign(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(num_workers));
  return request;
}

absl::StatusOr<JobCut> CutJob(const v1::JobSpec& spec, const std::vector<WorkerProfile>& workers,
                              const PlanOptions& options) {
  STAGECOACH_ASSIGN_OR_RETURN(JobRequest request, JobRequestOf(spec, workers, options));
  JobCut cut;
  STAGECOACH_ASSIGN_OR_RETURN(cut.choice, ChooseSchedule(request.cut, request.schedules, request.num_chunks));
  cut.graph = std::move(request.cut.graph);
  return cut;
}

}  // namespace stagecoach
